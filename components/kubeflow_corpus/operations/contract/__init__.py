"""What this package relies on, as promises that are tried against a real Milvus and a real embedding service."""
