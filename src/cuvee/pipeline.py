"""The order of the steps."""
