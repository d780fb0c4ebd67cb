"""Code that the scanner's stages share: draws, rows, segments, leftovers and summaries."""
