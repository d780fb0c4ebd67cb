"""The commands that run campaigns and their stages."""
