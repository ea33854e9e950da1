"""Pure chunkers: a document in, chunks by its own structure out."""
