"""The files to download: the given list or the crawl's files, the sample of them, and their addresses."""
