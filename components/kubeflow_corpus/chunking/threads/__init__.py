"""Issue threads: one unit per thread, its resolution found by rules."""
