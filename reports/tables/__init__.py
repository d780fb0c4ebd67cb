"""Tables of the papers, computed from the store and printed."""
