"""The commands that look after stored collections."""
