"""Client of the centre's interface (orchestration/airflow/inputs_app.py).

Limits size and duration of every response, and follows no redirection: a server that impersonates the centre
must not cause requests to others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from firstflight.egress import lab
from firstflight.errors import FirstflightError
from firstflight.system.network.clock import Offset, by_date

if TYPE_CHECKING:
    import requests

PATH = "/firstflight/v1"
TIMEOUT_S = (10.0, 120.0)  # connect, read
SOON_S = (3.0, 3.0)  # for a request that is repeated within seconds
# Size limits of responses: inputs.json, and a word or a sentence.
MAX_LIST_BYTES, MAX_TEXT_BYTES = 4 << 20, 4096
# Reading a body slower than this, after the read time-out, is aborted.
LEAST_BYTES_PER_S = 10_000.0
# The centre's responses to /stop.
STOPPED, GOES_ON = "stopped", "goes on"


class CentreUnreachable(FirstflightError):
    """The centre did not answer, or not as expected; the task is retried."""


class CentreClient:
    """One run as the centre offers it.

    `centre` is the URL before /firstflight/v1, `token` returns a fresh token (`centre_token.sign`). Methods
    raise CentreUnreachable.
    """

    def __init__(
        self,
        session: requests.Session,
        centre: str,
        run_id: str,
        token: Callable[[], str],
        timeout_s: tuple[float, float] = TIMEOUT_S,
    ) -> None:
        lab.enforce()  # for Airflow's process, which did not run cli.main
        self._session = session
        self._base = f"{centre.rstrip('/')}{PATH}"
        self._run = f"{centre.rstrip('/')}{PATH}/runs/{run_id}"
        self._token = token
        self._timeout_s = timeout_s

    def inputs(self, check_clock: Callable[[Offset], None]) -> tuple[Offset | None, dict[str, Any]]:
        """Return the offset from the centre's clock (`None` if it sends no Date), and inputs.json.

        `check_clock` may refuse the offset by raising. It is called before the response is checked, because
        the centre refuses a token signed with a wrong clock, without naming the clock.
        """
        before_ns = time.time_ns()
        answer = self._ask(f"{self._run}/inputs")
        offset = by_date(answer.headers.get("Date"), before_ns, time.time_ns(), "the centre's")
        if offset is not None:
            check_clock(offset)
        text = self._text(answer, MAX_LIST_BYTES)
        try:
            inputs = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CentreUnreachable(f"the centre's answer at {answer.url} is not JSON") from error
        if not (isinstance(inputs, dict) and isinstance(inputs.get("manifest"), dict)):
            raise CentreUnreachable(f"the centre's answer at {answer.url} is not a list of inputs")
        return offset, inputs

    def stream(self, name: str, out: Path, size: int) -> None:
        """Write one input file of `size` bytes to `out`."""
        answer = self._ask(f"{self._run}/inputs/{quote(name)}")
        self._check(answer)
        with out.open("wb") as file:
            for piece in self._body(answer, size):
                file.write(piece)

    def is_stopped(self) -> bool:
        """Return whether the run's stop file exists at the centre."""
        return self._text(self._ask(f"{self._run}/stop"), MAX_TEXT_BYTES) == STOPPED

    def opted_out(self, nonce: str) -> list[str]:
        """Return the entries of the site's opt-out list; `nonce` proves that the answer is not an old one."""
        answer = self._ask(f"{self._base}/optout?nonce={quote(nonce)}")
        try:
            content = json.loads(self._text(answer, MAX_LIST_BYTES))
            entries = content["entries"] if content["nonce"] == nonce else None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CentreUnreachable(f"the centre's answer at {self._base}/optout is not a list") from error
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise CentreUnreachable(
                f"the centre's answer at {self._base}/optout is not a list, or not a fresh one"
            )
        return entries

    def _ask(self, url: str) -> requests.Response:
        import requests

        headers = {"Authorization": f"Bearer {self._token()}", "Accept-Encoding": "identity"}
        try:
            return self._session.get(
                url, headers=headers, stream=True, allow_redirects=False, timeout=self._timeout_s
            )
        except requests.RequestException as error:
            raise CentreUnreachable(f"the centre did not answer at {url}: {_cause_of(error)}") from error

    def _check(self, answer: requests.Response) -> None:
        """Raise CentreUnreachable with the centre's message unless the status is 200."""
        if answer.status_code == 200:
            return
        message = ""
        if answer.headers.get("Content-Type", "").startswith("text/plain"):
            message = f": {self._read(answer, MAX_TEXT_BYTES)[:200].decode(errors='replace')}"
        raise CentreUnreachable(f"the centre answered {answer.status_code} at {answer.url}{message}")

    def _text(self, answer: requests.Response, most: int) -> str:
        self._check(answer)
        return self._read(answer, most).decode(errors="replace")

    def _read(self, answer: requests.Response, most: int) -> bytes:
        return b"".join(self._body(answer, most))

    def _body(self, answer: requests.Response, most: int) -> Iterator[bytes]:
        """Yield a body's bytes; CentreUnreachable if it exceeds `most` bytes or takes too long."""
        from urllib3.exceptions import HTTPError

        until = time.monotonic() + self._timeout_s[1] + most / LEAST_BYTES_PER_S
        remaining = most
        with answer:
            try:
                # The raw bytes, without decompression, for any Content-Encoding.
                while piece := answer.raw.read1(min(1 << 20, remaining + 1), decode_content=False):
                    remaining -= len(piece)
                    if remaining < 0:
                        raise CentreUnreachable(f"{answer.url} has more than the {most} bytes allowed")
                    if time.monotonic() > until:
                        raise CentreUnreachable(
                            f"{answer.url} arrives too slowly: firstflight tries again later"
                        )
                    yield piece
            except (HTTPError, OSError) as error:
                raise CentreUnreachable(f"the centre aborted {answer.url}: {_cause_of(error)}") from error


def _cause_of(error: Exception) -> str:
    return str(error).split("(Caused by ")[-1].strip("() ")[:200]
