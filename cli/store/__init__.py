"""The commands that manage a store."""
