"""Issue threads: one unit a thread, its resolution found by rules."""
