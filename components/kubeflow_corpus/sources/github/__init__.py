"""GitHub's REST API and the issue threads read through it."""
