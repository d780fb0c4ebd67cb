"""A wrong clock, compared with a real web server's Date and the campaign's time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.egress.shared_limits import ProbeTurn
from firstflight.errors import FirstflightError
from firstflight.run import clock
from firstflight.system.network.clock import Offset
from scanner.driver import arguments
from tests import minimal


@contextmanager
def web_server(ahead_s: float | None) -> Iterator[str]:
    """Run a web server with a clock that is ahead by `ahead_s`. If `None`, it sends no Date."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(204)
            if ahead_s is not None:
                self.send_header("Date", self.date_time_string(time.time() + ahead_s))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("ahead_s", [0.0, 180.0, -600.0])
def test_the_offset_to_a_web_server_is_within_its_uncertainty(ahead_s: float) -> None:
    found = 0
    with web_server(ahead_s) as url:
        for _ in range(5):
            began = time.monotonic()
            offset = clock.against_http(url, None)
            took_us = (time.monotonic() - began) * 1e6
            # Half a second for Date's resolution, and half of the round trip.
            assert offset.uncertainty_us is not None
            assert 500_000 <= offset.uncertainty_us <= 500_000 + took_us / 2 + 1
            error_us = offset.offset_us + ahead_s * 1e6
            assert abs(error_us) <= offset.uncertainty_us
            found += sum(abs(error_us + fault) > offset.uncertainty_us for fault in (1_000_000, -1_000_000))
            time.sleep(0.23)  # measure the next offset at another fraction of the second
    assert found > 5, "errors of one second, in either direction, must exceed the uncertainty"
    message = clock.warning(offset, warn_s=5)
    assert (message is None) == (ahead_s == 0)
    if message is not None:
        assert ("behind" in message) == (ahead_s > 0) and url in message


def test_the_offset_to_the_campaign_counts_from_the_start_of_the_process() -> None:
    started_ns = clock._started_ns()
    assert started_ns < time.time_ns()
    assert wrong_by_us(0) <= 0
    assert wrong_by_us(1_000_000) > 0, "a clock error of one second must be detected"
    offset = clock.against_centre(started_ns - 42 * 10**9)
    assert "42.0 s ahead of the campaign's clock" in str(clock.warning(offset, warn_s=5))
    assert clock.warning(offset, warn_s=60) is None


@pytest.mark.parametrize(
    ("offset_s", "uncertainty_s", "corrected"),
    [
        (0.3, 0.5, False),  # perhaps right
        (0.6, 0.5, True),
        (-4.0, 0.6, True),
        (0.6, 0.3, False),  # less than half of the slack
        (1.2, 0.1, True),
        (4.0, None, False),  # against the campaign's clock, including the time to connect
        (5.5, None, True),
    ],
)
def test_turns_are_corrected_by_an_offset_that_the_slack_does_not_cover(
    tmp_path: Path, offset_s: float, uncertainty_s: float | None, corrected: bool
) -> None:
    in_force, _ = settings.load(minimal.write(tmp_path))
    offset = Offset(
        offset_us=round(offset_s * 1e6),
        uncertainty_us=None if uncertainty_s is None else round(uncertainty_s * 1e6),
        reference="a reference",
        compared_at_ns=time.time_ns(),
    )
    turn = ProbeTurn(0, 2, 15, 3)
    options = arguments.shared_options(in_force, in_force.vantage[0], tmp_path, turn=turn, clock=offset)
    assert dict(options).get("--clock-offset-ms") == (round(offset_s * 1000) if corrected else None)


def wrong_by_us(error_us: int) -> float:
    """Return by how much the error of an offset exceeds its uncertainty; `error_us` is added to the offset.

    A measurement reads two clocks, one after the other. The uncertainty is the time between these calls plus
    the resolution of the result, 1 us.
    """
    began = time.monotonic()
    started_ns = clock._started_ns()
    offset_us = clock.against_centre(started_ns - 42 * 10**9).offset_us + error_us
    took_us = (time.monotonic() - began) * 1e6
    return abs(offset_us - 42_000_000) - took_us - 1


def test_no_answer_and_no_date_are_one_sentence() -> None:
    with web_server(None) as url, pytest.raises(FirstflightError, match="gives no Date"):
        clock.against_http(url, None)
    with pytest.raises(FirstflightError, match="does not answer"):
        clock.against_http(url, None)
