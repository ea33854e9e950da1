"""Where documents come from: the catalogue, git checkouts and GitHub issue threads."""
