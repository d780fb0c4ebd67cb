"""ClickHouse's native protocol: its wire forms, and the server that speaks it before the embedded engine."""
