"""Outcomes of the request: each kind of answer has its value, and no answer exhausts memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.ipc
import pytest

from tests.handshake.conftest import CONTACT, ENDS_S, HOST, SILENT_S, EngineOutput, Http3, connect
from tests.handshake.server import MODES

SETTINGS = {"0x1": 4096, "0x7": 16}


def connected(http3: Http3, folder: Path, timeout_s: float, modes: Sequence[str]) -> EngineOutput:
    targets = [(HOST, f"{mode}.http3.test", http3.port) for mode in modes]
    options = ("--timeout", timeout_s, "--verify", "chain", "--roots", http3.authority, "--path", "/a?b=c")
    files = ("--segments", folder / "segments", "--summary", folder / "s")
    return connect(folder, targets, *options, "--format", "jsonl", *files)


@pytest.fixture(scope="module")
def done(http3: Http3, tmp_path_factory: pytest.TempPathFactory) -> EngineOutput:
    """The rows of all modes with connections that finish by themselves."""
    return connected(
        http3, tmp_path_factory.mktemp("modes"), ENDS_S, [mode for mode in MODES if mode != "silent"]
    )


@pytest.fixture(scope="module")
def silent(http3: Http3, tmp_path_factory: pytest.TempPathFactory) -> EngineOutput:
    """The row of the mode that never responds."""
    return connected(http3, tmp_path_factory.mktemp("silent"), SILENT_S, ["silent"])


def segments(folder: Path) -> list[dict[str, Any]]:
    found = sorted(folder.glob("seg-*.arrow"))
    return [row for path in found for row in pyarrow.ipc.open_file(path).read_all().to_pylist()]


@pytest.mark.parametrize(
    ("mode", "http", "status", "more"),
    [
        ("plain", "response", 200, {"server_header": "plain/1", "edge_location": "FRA"}),
        ("early", "response", 204, {"edge_location": "HAM", "server_header": None}),
        ("redirect", "response", 301, {}),
        ("large", "response", 200, {"server_header": "plain/1"}),
        ("content", "response", 200, {}),
        ("trailers", "response", 200, {}),
        ("too-large", "malformed", None, {}),
        ("dynamic", "malformed", None, {}),
        ("forbidden", "malformed", None, {}),
        ("empty", "incomplete", None, {}),
        ("reset", "reset", None, {}),
        ("silent", "no_response", None, {}),
        (
            "close",
            "no_response",
            None,
            {"close_code": 0x105, "close_reason": "enough", "close_by_application": True},
        ),
    ],
)
def test_each_answer_has_its_words(
    done: EngineOutput,
    silent: EngineOutput,
    mode: str,
    http: str,
    status: int | None,
    more: dict[str, object],
) -> None:
    row = (silent if mode == "silent" else done).row(f"{mode}.http3.test")
    assert (row["outcome"], row["http"], row["status"]) == ("done", http, status)
    assert {name: row[name] for name in more} == more
    # HANDSHAKE_DONE may arrive after the frame that closes the connection.
    assert row["stage"] == "response" if status else row["stage"] in ("handshake", "confirmed")
    assert (row["response_us"] is None) == (status is None)
    # The engine requests only a header section.
    assert row["bytes_received"] < 120_000


def test_negotiated_and_shown_values_are_recorded(done: EngineOutput) -> None:
    row = done.row("plain.http3.test")
    assert (row["version"], row["alpn"], row["group"]) == ("0x00000001", "h3", "X25519")
    assert row["cipher"] in (
        "TLS_AES_256_GCM_SHA384",
        "TLS_AES_128_GCM_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
    )
    assert (row["signature_valid"], row["verified"], row["name_matches"]) == (True, True, True)
    times = [row[f"{name}_us"] for name in ("ack", "sh", "certificate", "handshake", "response")]
    assert times == sorted(times) and row["settings_us"] is not None
    assert row["confirmed_us"] >= row["handshake_us"] and row["rtt_samples"] >= 1
    assert row["rtt_min_us"] <= row["rtt_first_us"] <= row["ack_us"]
    parameters = {
        parameter["name"]: parameter["value"] for parameter in json.loads(row["transport_parameters"])
    }
    assert (
        parameters["max_idle_timeout"] == 60_000
        and parameters["initial_source_connection_id"] == row["server_cid"]
    )


def test_certificates_and_responses_have_their_segments(done: EngineOutput) -> None:
    folder = done.folder / "segments"
    certificates = segments(folder / "certificate")
    leaf = next(certificate for certificate in certificates if certificate["position"] == 0)
    assert leaf["sha256"] == done.row("plain.http3.test")["leaf_sha256"]
    assert json.loads(leaf["sans"]) == ["*.http3.test"]
    assert len({certificate["sha256"] for certificate in certificates}) == len(certificates)
    responses = {
        response["domain"].split(".")[0]: response for response in segments(folder / "http3_response")
    }
    assert responses.keys() == {row["domain"].split(".")[0] for row in done.rows if row["status"]}
    plain = responses["plain"]
    assert json.loads(plain["headers"])[:2] == [["server", "plain/1"], ["cf-ray", "8f3a1b2c3d4e5f60-FRA"]]
    assert json.loads(plain["settings"]).items() >= SETTINGS.items()
    assert plain["qpack_max_table_capacity"] == 4096 and plain["cf_ray"].endswith("-FRA")
    assert responses["redirect"]["location"] == "https://elsewhere.test/"
    rows = segments(folder)
    assert {row["domain"] for row in rows} == {row["domain"] for row in done.rows}


def test_requests_identify_the_sender_and_the_target(
    done: EngineOutput, silent: EngineOutput, http3: Http3
) -> None:
    assert (done.status, silent.status) == (0, 0), done.messages + silent.messages
    requests = {headers[":authority"].split(".")[0]: headers for headers in http3.asked()}
    assert requests.keys() >= MODES.keys()
    request = requests["plain"]
    assert (request[":method"], request[":scheme"], request[":path"]) == ("HEAD", "https", "/a?b=c")
    assert request["user-agent"].startswith("firstflight/") and CONTACT in request["user-agent"]


def test_another_name_and_a_foreign_root_are_seen(http3: Http3, tmp_path: Path) -> None:
    targets = [(HOST, "other.test", http3.port), (HOST, "", http3.port)]
    done = connect(tmp_path, targets, "--verify", "chain")
    row = done.row("other.test")
    assert (row["outcome"], row["verified"], row["name_matches"]) == ("done", False, False)
    assert row["verify_error"] and row["status"] == 200
    assert done.row("")["name_matches"] is None
    unchecked = connect(tmp_path, targets[:1], "--verify", "none").row("other.test")
    assert (unchecked["signature_valid"], unchecked["verified"]) == (None, None)
