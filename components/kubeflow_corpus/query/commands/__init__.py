"""The command that asks the corpus."""
