"""Answers questions of the dashboard one after the other, in a separate process without clients.

It only queries a server, so it holds no lock. The server evaluates the store's expressions, and `store serve`
is confined (store/confine). The local engine, which has no store, formats the answers.
Standard input: a JSON object a line (`asking.Question` with the limits). Standard output: a line of JSON with
the number of `bytes` of the answer that follow it, or with `fault` and `message`.
"""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO

from firstflight.errors import FirstflightError
from reports import query
from reports.dashboard.asking.faults import NoAnswer
from store import find
from store.backends.remote import ServerStore
from store.base import QueryLimits
from store.errors import LIMIT_CODES, OUT_OF_TIME, StoreError, StoreHeld, StoreUnreachable
from store.location import EmbeddedLocation


def fault_of(error: FirstflightError) -> str:
    """Return the kind of a failure to answer: a name of `faults.STATUS`."""
    if isinstance(error, StoreError) and error.code == OUT_OF_TIME:
        return "time"
    if isinstance(error, StoreError) and error.code in LIMIT_CODES:
        return "size"
    return "busy" if isinstance(error, StoreHeld | StoreUnreachable) else "store"


class QueryAnswerer:
    """The open store, and the answers to questions."""

    def __init__(self) -> None:
        self._store: ServerStore | None = None

    def answer(self, question: dict[str, Any]) -> bytes:
        """Return the answer. FirstflightError or NoAnswer if that fails."""
        store = self._opened(QueryLimits(**question["limits"]))
        try:
            asks = (question["name"], question["given"], question["output_format"])
            return query.asked_of(store, *asks, rolled_up=question["rolled_up"]).content
        except StoreUnreachable:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect from the server; the next question connects again."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _opened(self, limits: QueryLimits) -> ServerStore:
        if self._store is None:
            location = find()
            if isinstance(location, EmbeddedLocation):
                served = location.served()
                if served is None:
                    raise NoAnswer("busy", f"the store in {location.path} is not served: try again later")
                location = served
            self._store = ServerStore(location, write=False, limits=limits)
        return self._store


def serve(questions: BinaryIO, out: BinaryIO) -> None:
    """Answer questions until the input ends."""
    answerer = QueryAnswerer()
    for line in questions:
        head: dict[str, Any] = {}
        content = b""
        try:
            content = answerer.answer(json.loads(line))
        except NoAnswer as error:
            head = {"fault": error.fault, "message": str(error)}
        except FirstflightError as error:
            head = {"fault": fault_of(error), "message": str(error)}
        out.write(json.dumps(head | {"bytes": len(content)}).encode() + b"\n" + content)
        out.flush()
    answerer.close()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
