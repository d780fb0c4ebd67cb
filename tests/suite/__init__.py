"""Checks of the tests and of the tree: groups, samples, long runs, make targets, contracts, named paths."""
