"""Texts to dense vectors: a text-embeddings-inference client and an embedded model."""
