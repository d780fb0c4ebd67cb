"""Servers that misbehave during or after a handshake: their outcomes, and the engine's bounded memory."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from downloader.clients.contract import Request
from firstflight.system import binaries
from schemas import records
from tests.handshake.conftest import ENDS_S, HOST, SILENT_S, TREE, EngineOutput, Target
from tests.handshake.misbehaving import rogue, rogue_http, rogue_tls
from tests.handshake.misbehaving.serving import connect_measured, serving
from tests.handshake.test_http3 import segments

# Terminal control characters and line terminators, except for line feeds.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

FAILED, OVER = "handshake_failed", ("done", "confirmed")
ANSWERED = ("done", "response", "response")


def by(side: str, alert: int) -> dict[str, object]:
    """Return an alert's columns."""
    return {"alert": alert, "alert_by": side}


def http(code: int, cause: str) -> dict[str, object]:
    """Return the columns of a rule of HTTP/3 that was broken."""
    return {"detail": f"HTTP/3 error {code:#x}: {cause}"}


UNDECODABLE, LOAD = 0x200, 0x107
EARLY = "field section ends early"
DYNAMIC = "reference to the dynamic table"
LARGE = "field section above the limit"

# outcome, stage, http, further columns
EXPECTED: dict[str, tuple[str, str, str | None, dict[str, object]]] = {
    "plain": (
        *ANSWERED,
        {
            "server_header": "rogue/1",
            "detail": None,
            "migration_disabled": False,
            "preferred_address": False,
            **dict.fromkeys(
                ("max_datagram_frame_size", "min_ack_delay_us", "multipath_id", "multipath_value")
            ),
        },
    ),
    # TLS messages.
    "wrong-finished": (FAILED, "certificate", None, by("client", 51)),
    "wrong-signature": (*ANSWERED, {"signature_valid": False}),
    "other-message": (FAILED, "certificate", None, by("client", 10)),
    "chain-60k": (*ANSWERED, {"chain_length": 3}),
    "chain-100k": (FAILED, "server_hello", None, by("client", 80)),
    "chain-of-thousands": (*ANSWERED, {"chain_length": 255}),
    "compressed": (*ANSWERED, {"certificate_compression": "zlib", "signature_valid": True}),
    "compressed-unoffered": (
        *(FAILED, "certificate", None),
        by("client", 42) | {"certificate_compression": "unknown"},
    ),
    "bomb": (FAILED, "certificate", None, by("client", 42) | {"certificate_uncompressed_bytes": 2**24 + 3}),
    "bomb-unannounced": (FAILED, "certificate", None, by("client", 42)),
    "bomb-missing": (FAILED, "certificate", None, by("client", 42)),
    "parameters-1000": (*ANSWERED, {}),
    "parameters-long": (*ANSWERED, {}),
    "parameters-twice": (*ANSWERED, {}),
    "parameters-all": (
        *ANSWERED,
        {
            "migration_disabled": True,
            "preferred_address": True,
            "max_datagram_frame_size": 65_535,
            "min_ack_delay_us": 1_000,
            "min_ack_delay_id": "0xff04de1b",
            "multipath_id": "0x3e",
            "multipath_value": 4,
        },
    ),
    "parameters-cut": ("malformed", "handshake", "no_response", {}),
    "parameters-none": ("malformed", "handshake", "no_response", {"transport_parameters": "[]"}),
    # Frames in Handshake packets.
    "alert-hello": (FAILED, "server_hello", None, by("server", 40) | {"close_code": 0x128}),
    "alert-certificate": (FAILED, "certificate", None, by("server", 40)),
    "closed-certificate": ("closed", "certificate", None, {"close_code": 1, "close_by_application": False}),
    "endless-messages": (FAILED, "server_hello", None, by("client", 80)),
    "many-pieces": ("malformed", "server_hello", None, {"alert": None}),
    "slow-messages": ("timeout", "server_hello", None, {}),
    # Frames in 1-RTT packets.
    "done-twice": (*ANSWERED, {}),
    "ids": ("malformed", "handshake", "no_response", {}),
    "ids-retired": ("malformed", "handshake", "no_response", {}),
    "id-never-given": ("malformed", "handshake", "no_response", {}),
    "challenges": (*ANSWERED, {}),
    "challenges-endless": (*ANSWERED, {}),
    "key-update": (*ANSWERED, {}),
    "key-update-twice": ("malformed", "handshake", "no_response", {}),
    "stop-sending": (*ANSWERED, {}),
    "foreign-reset": (*ANSWERED, {}),
    "negotiation-late": (*ANSWERED, {"discarded": 1}),
    "unknown-frame": ("malformed", "handshake", "no_response", {}),
    "cut-frame": ("malformed", "handshake", "no_response", {}),
    "foreign-stream": ("malformed", "handshake", "no_response", {}),
    "streams": ("malformed", "handshake", "no_response", {}),
    "beyond-credit": ("malformed", "handshake", "no_response", {}),
    "beyond-credit-by-its-end": ("malformed", "handshake", "no_response", {}),
    "beyond-numbers": ("malformed", "handshake", "no_response", {}),
    "ack-of-nothing": ("malformed", "handshake", "no_response", {}),
    "tickets": ("malformed", "handshake", "no_response", {}),
    "alert-late": (FAILED, "handshake", "no_response", by("server", 40)),
    "closed-late": ("done", "handshake", "no_response", {"close_code": 0x105, "close_by_application": True}),
    "endless-late": (FAILED, "handshake", "no_response", by("client", 80)),
    "other-message-late": (FAILED, "handshake", "no_response", by("client", 10)),
    # Its answers come from another port: a server may not migrate (RFC 9000 9).
    "moved": ("done", "handshake", "no_response", {}),
    # HTTP/3.
    "headers-10m": (*OVER, "malformed", http(LOAD, "HEADERS frame above the limit")),
    "headers-64k": (*ANSWERED, {}),
    "huffman-bomb": (*OVER, "malformed", http(LOAD, LARGE)),
    "fields-bomb": (*OVER, "malformed", http(LOAD, LARGE)),
    "integer-overflow": (*OVER, "malformed", http(UNDECODABLE, "integer above 62 bits")),
    "string-overflow": (*OVER, "malformed", http(UNDECODABLE, EARLY)),
    "dynamic-name": (*OVER, "malformed", http(UNDECODABLE, DYNAMIC)),
    "dynamic-count": (*OVER, "malformed", http(UNDECODABLE, DYNAMIC)),
    "post-base": (*OVER, "malformed", http(UNDECODABLE, DYNAMIC)),
    "insertions": (*OVER, "malformed", http(0x201, "insertion into a dynamic table without capacity")),
    "informational": (*OVER, "incomplete", {}),
    "push": (*OVER, "malformed", {}),
    "half": (*OVER, "incomplete", {}),
    "unknown-frames": (*ANSWERED, {}),
    "unknown-stream": (*ANSWERED, {}),
    "bytes": (*ANSWERED, {"server_header": rogue_http.VALUE.decode(errors="replace")}),
    "goaway": (*ANSWERED, {}),
    "goaway-alone": (*OVER, "no_response", {}),
    "goaway-grows": (*OVER, "malformed", http(0x108, "stream ID of a GOAWAY grows")),
    "settings-twice": (*OVER, "malformed", http(0x105, "SETTINGS twice")),
    "control-endless": (*OVER, "no_response", {}),
    "control-closed": (*OVER, "malformed", http(0x104, "critical stream closed")),
    "control-closed-late": (*ANSWERED, http(0x104, "critical stream closed")),
    "control-reset": (*OVER, "malformed", http(0x104, "critical stream closed")),
    "control-twice": (*OVER, "malformed", http(0x103, "second stream of a kind")),
    "slow-headers": (*OVER, "incomplete", {}),
}

# In these modes a connection finishes only when it times out.
UNENDING = ("moved", "slow-messages", "slow-headers", "goaway-alone", "control-endless")
# Folder -> the run's modes.
RUNS = {"ending": [mode for mode in EXPECTED if mode not in UNENDING], "unending": [*UNENDING]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server's certificates."""
    return tmp_path_factory.mktemp("rogue")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[int]:
    with serving("rogue", folder, "*.rogue.test") as port:
        yield port


def named(modes: list[str], port: int) -> list[Target]:
    return [(HOST, f"{mode}.rogue.test", port) for mode in modes]


@pytest.fixture(scope="module")
def done(server: int, tmp_path_factory: pytest.TempPathFactory) -> EngineOutput:
    """The rows of all modes; `folder` has a folder for the output of each run."""
    folder = tmp_path_factory.mktemp("done")

    def run(part: str, timeout_s: float) -> EngineOutput:
        options = ("--timeout", timeout_s, "--format", "jsonl", "--segments", folder / part / "segments")
        return connect_measured(folder / part, named(RUNS[part], server), *options)[0]

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as preferred:
        preferred.bind(rogue_tls.PREFERRED)
        preferred.setblocking(False)
        ending, unending = run("ending", ENDS_S), run("unending", SILENT_S)
        # A server names this address; that permits no packet to it.
        with pytest.raises(BlockingIOError):
            preferred.recv(2048)
    assert (ending.status, unending.status) == (0, 0), ending.messages + unending.messages
    return replace(ending, rows=ending.rows + unending.rows, folder=folder)


def rows_beside(done: EngineOutput, kind: str) -> list[dict[str, Any]]:
    """Return a kind's rows that handshakes brought along, of both runs."""
    return [row for part in RUNS for row in segments(done.folder / part / "segments" / kind)]


def test_every_mode_has_its_outcome(done: EngineOutput) -> None:
    assert set(EXPECTED) == {"plain", *rogue.MODES}
    assert len(done.rows) == len(EXPECTED), done.messages
    wrong = {}
    for mode, (outcome, stage, answer, more) in EXPECTED.items():
        row = done.row(f"{mode}.rogue.test")
        wanted = {"outcome": outcome, "stage": stage, "http": answer, **more}
        found = {name: row[name] for name in wanted}
        if found != wanted:
            wrong[mode] = (found, row["detail"])
    assert wrong == {}


def test_every_closed_list_holds_what_the_rows_have(done: EngineOutput) -> None:
    """The loader refuses a whole file for one other value."""
    outside = {
        (column.name, value)
        for column in records.load("quic_handshake").file_columns
        if column.values
        for value in {row.get(column.name) for row in done.rows} - {None, *column.values}
    }
    assert outside == set()


def test_no_server_is_sent_much(done: EngineOutput) -> None:
    # A slow server gets datagrams until the timeout, because each message restarts the probe timeouts.
    slow = 20 * SILENT_S
    sent = {row["domain"]: row["datagrams_sent"] for row in done.rows}
    assert {name: n for name, n in sent.items() if n > (slow if name.startswith("slow-") else 60)} == {}


def test_text_of_servers_is_bounded_and_free_of_control_characters(done: EngineOutput) -> None:
    for part in RUNS:
        assert OBEYED.search((done.folder / part / "out").read_text()) is None, part
    reasons = [row["close_reason"] for row in done.rows if row["close_reason"]]
    # JSON keeps the exact text: the valid UTF-8 in a string of every byte, cut after 1,000 bytes.
    assert {reason[:128] for reason in reasons} == {bytes(range(128)).decode()}
    assert max(map(len, reasons)) <= 1000 and any("\x9b31m\u202e" in reason for reason in reasons)
    assert all(len(row["transport_parameters"] or "") <= 4200 for row in done.rows)
    assert all(len(row["detail"] or "") <= 300 for row in done.rows)


def test_parameters_are_all_counted(done: EngineOutput) -> None:
    def parameters(mode: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(done.row(f"{mode}.rogue.test")["transport_parameters"])
        return found

    own = parameters("plain")
    assert [parameter["id"] for parameter in parameters("parameters-twice")] == [
        parameter["id"] for parameter in own
    ] * 2
    *kept, rest = parameters("parameters-1000")
    assert len(kept) + rest["more"] == len(own) + 1000
    assert parameters("parameters-long")[-1] == {"more": 1}


def test_goaway_of_a_server_is_recorded(done: EngineOutput) -> None:
    responses = rows_beside(done, "http3_response")
    going = {response["domain"].split(".")[0]: response["goaway"] for response in responses}
    assert going.keys() == {row["domain"].split(".")[0] for row in done.rows if row["http"] == "response"}
    assert [mode for mode, goaway in going.items() if goaway] == ["goaway"]


def test_a_chain_of_thousands_has_few_rows(done: EngineOutput) -> None:
    certificates = rows_beside(done, "certificate")
    # The server's own in each run, 31 of the thousands, and the two chains of zeros.
    assert len(certificates) <= 40
    assert max(certificate["position"] for certificate in certificates) == 31


# Each of these modes tries to make the engine use much memory.
HEAVY = [
    *("bomb", "bomb-unannounced", "chain-100k", "chain-of-thousands", "endless-messages", "many-pieces"),
    *("parameters-long", "tickets", "headers-10m", "headers-64k", "huffman-bomb", "fields-bomb"),
    *("informational", "insertions", "control-endless"),
]
EACH = 4
MOST_MORE = 12 << 20


def test_memory_is_bounded(server: int, tmp_path: Path) -> None:
    """Compare the engine's peak memory with its peak for equally many connections to a correct server."""
    count = EACH * len(HEAVY)
    _, plain = connect_measured(tmp_path / "plain", named(["plain"] * count, server), "--timeout", 2)
    done, heavy = connect_measured(tmp_path / "heavy", named(HEAVY * EACH, server), "--timeout", 2)
    assert len(done.rows) == count
    assert heavy - plain < MOST_MORE, f"{heavy >> 20} MiB against {plain >> 20} MiB"


@pytest.mark.parametrize("client", ["quiche", "aioquic"])
def test_downloads_send_nothing_to_the_address_that_a_server_prefers(
    server: int, folder: Path, tmp_path: Path, client: str
) -> None:
    """aioquic sent a packet there, to any address and port, past the egress policy."""
    program = {
        "quiche": [str(binaries.find("firstflight-quic-download"))],
        "aioquic": [sys.executable, "-m", "downloader.clients.aioquic"],
    }
    host = "parameters-all.rogue.test"
    url, roots = f"https://{host}:{server}/", str(folder / "certificates" / "ca.pem")
    request = Request(url, host, HOST, server, "/", "test", 20.0, 1000, roots)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as preferred:
        preferred.bind(rogue_tls.PREFERRED)
        preferred.setblocking(False)
        done = subprocess.run(
            [*program[client], "allow-net=127.0.0.0/8"],
            input=replace(request, http="3").line(),
            capture_output=True,
            cwd=TREE,
            env={**os.environ, "SSLKEYLOGFILE": str(tmp_path / "keys")},
            check=False,
        )
        answer = json.loads(done.stdout.splitlines()[1])
        assert (answer["end"], answer["status"]) == ("complete", 200), done.stderr
        with pytest.raises(BlockingIOError):
            preferred.recv(2048)
