"""The console script: one module for each command."""
