"""Error answers of the server to a client."""

from __future__ import annotations

NOT_IMPLEMENTED = 48
AUTHENTICATION_FAILED = 516
TOO_MANY = 202


class Refusal(Exception):
    """An error for the client: ClickHouse's error code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
