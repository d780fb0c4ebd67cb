"""The crawl for files (crawler/files), against real servers and a real resolver on loopback."""
