"""Anonymous sessions for the edge: short-lived signed tokens, the keys that verify them, and their rotation."""
