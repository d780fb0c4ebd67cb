"""The centre's interface (orchestration/airflow/inputs_app.py) as a vantage point asks it.

Of an answer no more is read than it may have, and for no longer than it may take; a redirection is not
followed: whoever answers in the centre's place shall not have others asked from here.
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
from firstflight.system.clock import Offset, by_date

if TYPE_CHECKING:
    import requests

PATH = "/firstflight/v1"
TIMEOUT_S = (10.0, 120.0)  # connect, read
SOON_S = (3.0, 3.0)  # for a question that is asked again in seconds
# What an answer may have: inputs.json, and a word or a sentence.
MAX_LIST_BYTES, MAX_TEXT_BYTES = 4 << 20, 4096
# A body that comes more slowly than this, after the read time-out, is given up.
LEAST_BYTES_PER_S = 10_000.0
# What the centre answers when asked whether a run is stopped.
STOPPED, GOES_ON = "stopped", "goes on"


class CentreUnreachable(FirstflightError):
    """The centre did not answer, or not as it should; the task is tried again."""


class Centre:
    """One run as the centre offers it.

    `centre` is the URL before /firstflight/v1, `token` gives a fresh token (`centre_token.sign`). Methods
    raise CentreUnreachable with one sentence.
    """

    def __init__(
        self,
        session: requests.Session,
        centre: str,
        run_id: str,
        token: Callable[[], str],
        timeout_s: tuple[float, float] = TIMEOUT_S,
    ) -> None:
        lab.enforce()  # in Airflow's process, which did not come through our command line
        self._session = session
        self._run = f"{centre.rstrip('/')}{PATH}/runs/{run_id}"
        self._token = token
        self._timeout_s = timeout_s

    def inputs(self, judge_clock: Callable[[Offset], None]) -> tuple[Offset | None, dict[str, Any]]:
        """How far the clock here is off the centre's (None if it sends no Date), and inputs.json.

        `judge_clock` may refuse that offset. It is called before the answer is read, because the centre
        refuses a token that a wrong clock signed without giving that reason.
        """
        before_ns = time.time_ns()
        answer = self._ask(f"{self._run}/inputs")
        offset = by_date(answer.headers.get("Date"), before_ns, time.time_ns(), "the centre's")
        if offset is not None:
            judge_clock(offset)
        text = self._text(answer, MAX_LIST_BYTES)
        try:
            inputs = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CentreUnreachable(f"the centre's answer at {answer.url} is no JSON") from error
        if not (isinstance(inputs, dict) and isinstance(inputs.get("manifest"), dict)):
            raise CentreUnreachable(f"the centre's answer at {answer.url} is no list of inputs")
        return offset, inputs

    def stream(self, name: str, out: Path, size: int) -> None:
        """Write one input file of `size` bytes to `out`."""
        answer = self._ask(f"{self._run}/inputs/{quote(name)}")
        self._check(answer)
        with out.open("wb") as file:
            for piece in self._body(answer, size):
                file.write(piece)

    def is_stopped(self) -> bool:
        """Whether the run's stop file lies at the centre."""
        return self._text(self._ask(f"{self._run}/stop"), MAX_TEXT_BYTES) == STOPPED

    def _ask(self, url: str) -> requests.Response:
        import requests

        headers = {"Authorization": f"Bearer {self._token()}", "Accept-Encoding": "identity"}
        try:
            return self._session.get(
                url, headers=headers, stream=True, allow_redirects=False, timeout=self._timeout_s
            )
        except requests.RequestException as error:
            raise CentreUnreachable(f"the centre did not answer at {url}: {_short(error)}") from error

    def _check(self, answer: requests.Response) -> None:
        """CentreUnreachable, with what the centre says in a line, unless the status is 200."""
        if answer.status_code == 200:
            return
        said = ""
        if answer.headers.get("Content-Type", "").startswith("text/plain"):
            said = f": {self._read(answer, MAX_TEXT_BYTES)[:200].decode(errors='replace')}"
        raise CentreUnreachable(f"the centre answered {answer.status_code} at {answer.url}{said}")

    def _text(self, answer: requests.Response, most: int) -> str:
        self._check(answer)
        return self._read(answer, most).decode(errors="replace")

    def _read(self, answer: requests.Response, most: int) -> bytes:
        return b"".join(self._body(answer, most))

    def _body(self, answer: requests.Response, most: int) -> Iterator[bytes]:
        """The bytes of a body as they come: at most so many, and not for longer than they may take."""
        from urllib3.exceptions import HTTPError

        until = time.monotonic() + self._timeout_s[1] + most / LEAST_BYTES_PER_S
        left = most
        with answer:
            try:
                # As it is on the wire: nothing is decompressed, whatever the answer says of itself.
                while piece := answer.raw.read1(min(1 << 20, left + 1), decode_content=False):
                    left -= len(piece)
                    if left < 0:
                        raise CentreUnreachable(f"{answer.url} has more than the {most} bytes it may have")
                    if time.monotonic() > until:
                        raise CentreUnreachable(f"{answer.url} comes too slowly: it is tried again later")
                    yield piece
            except (HTTPError, OSError) as error:
                raise CentreUnreachable(f"the centre broke off {answer.url}: {_short(error)}") from error


def _short(error: Exception) -> str:
    return str(error).split("(Caused by ")[-1].strip("() ")[:200]
