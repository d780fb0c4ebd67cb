"""Reads the store and presents it: tables, figures, the page of a run, named queries, traces."""
