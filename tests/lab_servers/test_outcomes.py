"""The prober reports the documented outcome for each mode of the servers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstflight.system import binaries
from tests.waiting import PATIENCE_S

from .conftest import ROGUE_DELAY_US
from .running import HOST, RunningServer

Row = dict[str, Any]

# The prober's answer windows: for names with a ServerHello, and for names without an answer or ServerHello.
WINDOW_S, SILENT_S = 30, 8
SILENT = {
    f"{label}.small.test"
    for label in (
        *("hello-retry", "ack-only", "retry-silent", "retry-twice", "silent", "version-negotiation-own"),
        *("malformed-frames", "undecryptable"),
    )
}
LATE_US = WINDOW_S * 1_000_000  # later datagrams do not count as an answer
# Range of a single gap of a real stack. The first timestamp may be late, so the test only checks that the
# second datagram arrived later and that the columns have the right sign. test_first_answers checks the
# declared delays over several gaps. The rogue starts its delay after it has sent the first datagram, so its
# gaps are never shorter than declared.
AFTER = (1, LATE_US)

# Outcomes and columns, by the requested name; a pair is a range.
QUICHE: dict[str, Row] = {
    "iack.small.test": {
        "outcome": "iack",
        "ack_to_sh_us": AFTER,
        "sh_to_handshake_us": 0,
        "ack_datagram_bytes": 1200,
        "ack_frames": "ack",
        "retried": False,
        "discarded": 0,
    },
    "iack.large.test": {"outcome": "iack", "discarded": 0, "gap_before_sh": False},
    "wait.small.test": {"outcome": "coalesced", "ack_to_sh_us": 0, "ack_us": (4000, LATE_US)},
    "wait.large.test": {"outcome": "coalesced", "ack_to_sh_us": 0, "hello_retry": False},
    "retry.small.test": {"outcome": "coalesced", "retried": True, "amplification": None},
    "retry-iack.small.test": {
        "outcome": "iack",
        "retried": True,
        "ack_to_sh_us": AFTER,
    },
    "hello-retry.small.test": {"outcome": "ack_only", "hello_retry": True, "sh_us": None},
    "sh-then-certificate.small.test": {
        "outcome": "coalesced",
        "sh_to_handshake_us": AFTER,
    },
}
AIOQUIC: dict[str, Row] = {
    "wait.small.test": {"outcome": "coalesced", "ack_to_sh_us": 0},
    "wait.large.test": {"outcome": "coalesced", "ack_to_sh_us": 0},
    "iack.small.test": {
        "outcome": "iack",
        "ack_datagram_bytes": (30, 100),
        "ack_to_sh_us": AFTER,
    },
}
QUICGO: dict[str, Row] = {
    "wait.small.test": {"outcome": "coalesced", "ack_to_sh_us": 0, "ack_delay_raw": 0},
    "wait.large.test": {"outcome": "coalesced", "ack_to_sh_us": 0, "ack_delay_raw": 0},
}
_AFTER = (ROGUE_DELAY_US - 100, ROGUE_DELAY_US + LATE_US)
_IACK = {"outcome": "iack", "ack_to_sh_us": _AFTER}
_COALESCED = {"outcome": "coalesced", "ack_to_sh_us": 0, "discarded": 0}
ROGUE: dict[str, Row] = {
    "sh-first.small.test": {"outcome": "sh_first", "ack_us": None, "ack_to_sh_us": None},
    "sh-first-late-ack.small.test": {
        "outcome": "sh_first",
        "ack_to_sh_us": (-ROGUE_DELAY_US - LATE_US, -ROGUE_DELAY_US + 100),
    },
    "ack-only.small.test": {"outcome": "ack_only", "sh_us": None},
    "sh-then-certificate.small.test": {"outcome": "coalesced", "sh_to_handshake_us": _AFTER},
    "split-packets.small.test": {**_COALESCED, "ack_pn": 0, "sh_pn": 1},
    "reordered.small.test": _COALESCED,
    "lost-ack.small.test": {**_COALESCED, "gap_before_sh": True, "sh_pn": 1},
    "small-ack.small.test": {**_IACK, "ack_datagram_bytes": (30, 100)},
    "pn-start.small.test": {**_IACK, "ack_pn": 2**31 - 1, "sh_pn": 2**31},
    "pn-start.now.test": {**_COALESCED, "ack_pn": 2**31 - 1, "sh_pn": 2**31 - 1},
    "ack-ecn.small.test": _IACK,
    "ack-ecn.now.test": _COALESCED,
    "ecn-too-many.small.test": _IACK,
    "ecn-other-mark.small.test": _IACK,
    "ecn-congested.small.test": _IACK,
    "ecn-zero.small.test": _IACK,
    "ecn-decreasing.small.test": _IACK,
    "amplify.small.test": {**_COALESCED, "amplification": (3.8, 6), "bytes_received": 7200},
    "duplicates.small.test": _IACK,
    "duplicates.now.test": _COALESCED,
    "chatty.small.test": {**_IACK, "after_close": (1, 10)},
    "closed.small.test": {
        "outcome": "closed",
        "ack_us": None,
        "close_code": 0x128,
        "close_reason": "no service for this name",
    },
    "closed-with-ack.small.test": {"outcome": "closed", "ack_us": (0, LATE_US)},
    "closed-with-ack.now.test": {"outcome": "closed", "ack_us": (0, LATE_US)},
    "retry-silent.small.test": {
        "outcome": "retry",
        "retried": True,
        "retry_us": (0, LATE_US),
        "ack_us": None,
    },
    "retry-twice.small.test": {"outcome": "retry", "retried": True, "discarded": (1, 2)},
    "retry-ack-range.small.test": {**_IACK, "retried": True, "first_ack_range": 1},
    "version-negotiation.small.test": {"outcome": "version_negotiation"},
    "version-negotiation-own.small.test": {"outcome": "timeout", "version_list": None},
    "closed-hostile.small.test": {"outcome": "closed", "ack_us": None, "close_code": 2},
    "retry-long-token.small.test": {"outcome": "retry", "retried": True},
    "endless-crypto.small.test": {"outcome": "coalesced", "ack_to_sh_us": 0},
    "slow-crypto.small.test": _IACK,
    "silent.small.test": {"outcome": "timeout", "ack_us": None},
    "malformed-frames.small.test": {"outcome": "malformed", "sh_us": None},
    "undecryptable.small.test": {"outcome": "malformed", "sh_us": None},
    # The fifth forgery goes to another connection ID: it counts if no other probe shares port and address.
    "forged.small.test": {"outcome": "coalesced", "ack_to_sh_us": 0, "discarded": (4, 5)},
}


def probe(folder: Path, server: RunningServer, names: list[str], timeout_s: int = 3) -> dict[str, Row]:
    """Run the prober with an answer window of `timeout_s`; return each name's row."""
    targets = folder / "targets.csv"
    targets.write_text("ip,domain,port\n" + "".join(f"{HOST},{name},{server.port}\n" for name in names))
    ended = subprocess.run(
        [
            str(binaries.find("firstflight-prober")),
            *("--targets", str(targets), "--format", "jsonl", "--allow-net", "127.0.0.0/8"),
            *("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", "20"),
            *("--timeout", str(timeout_s)),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert sorted(row["domain"] for row in rows) == sorted(names)
    return {row["domain"]: row for row in rows}


def differences(row: Row, expected: Row) -> dict[str, tuple[object, object]]:
    """Return the columns with unexpected values: actual and expected."""

    def fits(value: Any, wanted: Any) -> bool:
        if isinstance(wanted, tuple):
            return value is not None and bool(wanted[0] <= value <= wanted[1])
        return bool(value == wanted)

    return {
        column: (row.get(column, "missing"), wanted)
        for column, wanted in expected.items()
        if column not in row or not fits(row[column], wanted)
    }


@pytest.mark.parametrize(
    ("server", "expected"),
    [("quiche", QUICHE), ("aioquic", AIOQUIC), ("quic-go", QUICGO), ("rogue", ROGUE)],
    indirect=["server"],
)
def test_outcomes(server: RunningServer, expected: dict[str, Row], tmp_path: Path) -> None:
    rows = probe(tmp_path, server, [name for name in expected if name not in SILENT], WINDOW_S)
    if silent := [name for name in expected if name in SILENT]:
        rows |= probe(tmp_path, server, silent, SILENT_S)
    wrong = {name: differences(rows[name], wanted) for name, wanted in expected.items()}
    assert {name: what for name, what in wrong.items() if what} == {}
    # Only a timeout leads to another attempt.
    again = {name: row for name, row in rows.items() if row["attempts"] > 1}
    assert set(again) <= {"silent.small.test", "version-negotiation-own.small.test"}, again


@pytest.mark.parametrize("server", ["rogue"], indirect=True)
def test_retransmissions_after_the_end_change_nothing(server: RunningServer, tmp_path: Path) -> None:
    """The test probes one name: the retransmissions arrive after the prober has discarded the connection.

    They would count as malformed answers of another connection.
    """
    row = probe(tmp_path, server, ["retransmit.small.test"], WINDOW_S)["retransmit.small.test"]
    unheard: Row = {"listened_s": None, "retransmissions": None, "retransmission_us": []}
    assert differences(row, {**_IACK, **unheard}) == {}


@pytest.mark.parametrize("server", ["rogue"], indirect=True)
def test_all_five_forgeries_are_discarded(server: RunningServer, tmp_path: Path) -> None:
    """The test probes one name, so the forgery to another connection ID can only belong to this probe."""
    row = probe(tmp_path, server, ["forged.small.test"], WINDOW_S)["forged.small.test"]
    assert (row["outcome"], row["discarded"]) == ("coalesced", 5)
