"""The command line: the one place that knows every part of firstflight."""
