"""Known-answer questions, retrieval metrics and the gate before a publish."""
