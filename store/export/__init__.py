"""Writes runs of the store into a folder that can be published, and finds the runs in such a folder."""
