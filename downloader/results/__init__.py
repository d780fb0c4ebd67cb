"""Results of downloads: outcomes, flows in the captures, and rows."""
