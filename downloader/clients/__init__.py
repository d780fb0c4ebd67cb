"""Download clients: programs that take one request a line and give one answer a line (contract.py)."""
