"""Other scanners as engines of `firstflight scan`: their programs, under firstflight's lists and limits."""
