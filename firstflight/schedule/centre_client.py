"""The centre's interface (firstflight/schedule/inputs_app.py) as a vantage point asks it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstflight.egress import lab
from firstflight.errors import FirstflightError

if TYPE_CHECKING:
    import requests

PATH = "/firstflight/v1"
TIMEOUT_S = (10.0, 120.0)  # connect, read
SOON_S = (3.0, 3.0)  # for a question that is asked again in seconds
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

    def inputs(self, judge_clock: Callable[[float], None]) -> tuple[float, dict[str, Any]]:
        """Seconds that the clock here is ahead of the centre's (to half a second), and inputs.json.

        `judge_clock` may refuse that offset. It is asked before the answer is looked at, for a token that was
        signed by a wrong clock is refused there without that reason.
        """
        before = datetime.now(UTC)
        answer = self._ask(f"{self._run}/inputs")
        offset_s = ahead_s(answer, before, datetime.now(UTC)) or 0.0
        judge_clock(offset_s)
        inputs = _checked(answer).json()
        assert isinstance(inputs, dict)
        return offset_s, inputs

    def stream(self, name: str, out: Path) -> None:
        """Write one input file to `out`."""
        from urllib3.exceptions import HTTPError

        url = f"{self._run}/inputs/{name}"
        answer = _checked(self._ask(url, stream=True))
        with answer, out.open("wb") as file:
            try:
                shutil.copyfileobj(answer.raw, file, 1 << 20)
            except HTTPError as error:
                raise CentreUnreachable(f"the centre broke off {url}: {_short(error)}") from error

    def is_stopped(self) -> bool:
        """Whether the run's stop file lies at the centre."""
        return _checked(self._ask(f"{self._run}/stop")).text == STOPPED

    def _ask(self, url: str, *, stream: bool = False) -> requests.Response:
        import requests

        headers = {"Authorization": f"Bearer {self._token()}", "Accept-Encoding": "identity"}
        try:
            return self._session.get(url, headers=headers, stream=stream, timeout=self._timeout_s)
        except requests.RequestException as error:
            raise CentreUnreachable(f"the centre did not answer at {url}: {_short(error)}") from error


def ahead_s(answer: requests.Response, before: datetime, after: datetime) -> float | None:
    """Seconds that the clock here is ahead of that of whoever answered a question that was asked between
    `before` and `after`; None if the answer has no Date (RFC 9110 6.6.1, cut to the second)."""
    told = answer.headers.get("Date")
    if told is None:
        return None
    here = before + (after - before) / 2
    return (here - parsedate_to_datetime(told)).total_seconds() - 0.5


def _checked(answer: requests.Response) -> requests.Response:
    if answer.status_code != 200:
        plain = answer.headers.get("Content-Type", "").startswith("text/plain")
        told = f": {answer.text[:200]}" if plain else ""
        raise CentreUnreachable(f"the centre answered {answer.status_code} at {answer.url}{told}")
    return answer


def _short(error: Exception) -> str:
    return str(error).split("(Caused by ")[-1].strip("() ")[:200]
