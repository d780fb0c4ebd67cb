"""Identifies the CDN for a name, a response or a certificate, and the location of the edge that answered."""
