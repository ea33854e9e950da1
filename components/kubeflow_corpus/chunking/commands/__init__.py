"""The commands of this stage."""
