"""The commands that show results."""
