"""What an operator runs beside the pipelines: access rights of Milvus, and the contract of a real server."""
