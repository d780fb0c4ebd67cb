"""The commands that operate a site."""
