"""The Model Context Protocol face of the query library."""
