"""The limit of datagrams, and datagrams that the system refuses to send."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.handshake.conftest import HOST, argv, connect, write_targets
from tests.lab_servers.running import endpoint, running
from tests.waiting import PATIENCE_S

RATE, NAMES = 20, 40


def test_all_datagrams_stay_under_five_times_the_rate(tmp_path: Path) -> None:
    """Each server sends 220 kB within half a second, and each datagram could cause an ACK."""
    endpoints = [
        endpoint("rogue", "endless_crypto", None, domain=f"n{number}.small.test") for number in range(NAMES)
    ]
    summary = tmp_path / "summary.json"
    limits = ("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", str(RATE))
    with running(tmp_path, "rogue", endpoints) as server:
        targets = [(HOST, served.domain, server.port) for served in endpoints]
        done = connect(tmp_path, targets, "--timeout", 2, "--summary", summary, limits=limits)
    assert (done.status, len(done.rows)) == (0, NAMES), done.messages
    found = json.loads(summary.read_text())
    # ClientHello, Finished with the request, ACK, close, one for losses.
    assert found["max_datagrams_per_second"] < 5 * RATE + found["batch"]
    # Twice the rate, a probe's, is not enough for it.
    assert found["max_datagrams_per_second"] > 2 * RATE + found["batch"]


def test_datagrams_that_the_system_refuses_are_send_failed(tmp_path: Path) -> None:
    targets = [("198.18.0.1", "a.test", 443), ("2001:db8::1", "b.test", 443)]
    path = write_targets(tmp_path / "t.csv", targets)
    allow = ("--allow-net", "198.18.0.0/15", "--allow-net", "2001:db8::/32")
    # A network namespace without any route, with the lab's mark.
    marked = ["sh", "-c", 'ip link set lo alias firstflight-lab && exec "$@"', "sh"]
    command = ["unshare", "--user", "--map-root-user", "--net", *marked, *argv("--targets", path, *allow)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, len(rows)) == (0, 2), done.stderr
    for row in rows:
        assert (row["outcome"], row["stage"], row["sent_at"]) == ("send_failed", None, None)
        assert row["detail"].startswith("the system refused to send: ")
        assert row["bytes_sent"] == row["datagrams_sent"] == 0
