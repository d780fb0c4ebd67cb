"""Target lists: Tranco, CrUX, and the user's own lists."""
