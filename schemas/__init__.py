"""The record kinds, tables, views and queries."""
