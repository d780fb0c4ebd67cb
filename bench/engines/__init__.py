"""Engines, the crawl and download clients: work per CPU second, memory, accuracy of rates."""
