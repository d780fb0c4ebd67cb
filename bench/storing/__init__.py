"""The store and the dashboard: loading, bytes per row, queries and pages."""
