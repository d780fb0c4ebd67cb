"""A small private Internet: namespaces, links, real servers, and the ground truth about them."""
