"""The KFP faces of the steps."""
