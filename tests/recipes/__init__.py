"""Follows the recipes of docs/architecture.md ("Where to add") in a copy of the tree."""
