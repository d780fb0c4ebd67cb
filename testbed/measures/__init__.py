"""Measures: what the rows and captures of an experiment say, as tables and figures."""
