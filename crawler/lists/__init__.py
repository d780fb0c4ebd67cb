"""Target lists: Tranco, CrUX, own lists."""
