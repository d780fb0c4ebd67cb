"""What a SQL statement consists of, and which statements a client may send."""
