"""The crawl stage over the lab."""
