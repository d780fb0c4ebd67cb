"""Fetches the data that a run needs: top lists, routing tables, AS and CDN data.

lists/      Tranco, CrUX and own lists
routing/    routing tables, AS organisations, the CDN map
files/      the crawl for files to download: a Scrapy spider
https       fetches for the first two
native/     Rust: reads routing tables
"""
