"""What the server says to a client in place of an answer."""

from __future__ import annotations

NOT_IMPLEMENTED = 48
AUTHENTICATION_FAILED = 516
TOO_MANY = 202


class Refusal(Exception):
    """An answer to the client: ClickHouse's error code and its words."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
