"""Other scanners as engines of `firstflight scan`, with firstflight's lists and limits."""
