"""The command that serves sessions and rotates their keys."""
