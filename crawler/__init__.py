"""Fetches the data that a run needs: top lists, routing tables, AS and CDN data."""
