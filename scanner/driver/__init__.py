"""Runs the prober: target list, rule files, process, feed and capture."""
