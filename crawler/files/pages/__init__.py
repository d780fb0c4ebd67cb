"""Reads what sites answer: links in pages, robots.txt, URLs."""
