"""Follows the recipes of docs/extending.md in a copy of the tree."""
