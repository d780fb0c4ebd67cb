"""Which CDN a name, a response or a certificate belongs to, and where the edge is that answered."""
