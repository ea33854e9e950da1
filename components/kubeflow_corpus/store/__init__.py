"""Milvus: the collections' schema, their versions, and the only writer."""
