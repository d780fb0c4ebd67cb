"""Finds a file of 1 to 10 MB on the web site of each name: the crawl (docs/design/0020)."""
