"""Experiments: what a cell holds, what a file varies, what papers give, what is expected."""
