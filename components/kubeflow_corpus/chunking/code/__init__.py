"""Source code by symbol."""
