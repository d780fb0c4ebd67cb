"""Chooses the files to download, from a list or the crawl, and their addresses."""
