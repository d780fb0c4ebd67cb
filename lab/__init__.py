"""A small Internet of our own: namespaces, links, real servers, and the truth about them."""
