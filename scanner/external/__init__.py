"""Other scanners as engines, with firstflight's lists and limits: `firstflight scan`, and the scan stage."""
