"""Record kinds, tables, views and queries."""
