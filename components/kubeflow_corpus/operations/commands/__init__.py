"""The commands that prepare a server, and hold it to its contract."""
