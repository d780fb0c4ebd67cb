"""Routing tables, AS organisations and the AS to CDN map."""
