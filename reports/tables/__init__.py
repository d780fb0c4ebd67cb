"""Tables of the papers: computed from the store or from captures, and printed."""
