"""ClickHouse's native protocol: its wire forms, and the server in front of the embedded engine."""
