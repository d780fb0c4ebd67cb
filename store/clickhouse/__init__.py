"""The server of ClickHouse's native protocol in front of the embedded engine."""
