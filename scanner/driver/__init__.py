"""Runs an engine: target list, rule files, process, feed and the capture beside it."""
