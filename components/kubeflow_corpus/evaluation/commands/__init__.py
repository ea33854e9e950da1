"""The command that measures retrieval."""
