"""Measures of experiments: results from invented rows, packets and logs."""
