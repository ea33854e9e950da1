"""Questions to evidence and citations: the thin library that an agent imports."""
