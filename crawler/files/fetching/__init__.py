"""Sends a crawl's requests, to permitted addresses and at its pace, and reads the answers."""
