"""The command line: the only package that imports every part of firstflight."""
