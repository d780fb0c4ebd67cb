"""Routing tables, AS organisations and the map from AS to CDN."""
