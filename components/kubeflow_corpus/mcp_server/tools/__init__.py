"""The tools: one object each, listed in `registry`."""
