"""The commands that serve the tools, or call one of them."""
