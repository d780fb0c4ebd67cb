"""Encoding of ClickHouse's native protocol: blocks, columns, packets, compression."""
