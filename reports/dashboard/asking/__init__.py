"""Queries the store within limits, by long-lived processes; tracks the state of the store."""
