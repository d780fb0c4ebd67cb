"""A stack's own qlog file as rows: both forms, drafts, times, and refused input."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dissector.qlog import read
from firstflight.errors import InputError

HEADER = {
    "qlog_version": "0.3",
    "qlog_format": "JSON-SEQ",
    "trace": {
        "vantage_point": {"type": "client"},
        "common_fields": {"ODCID": "8394C8F03E515708", "time_format": "relative", "reference_time": 0},
    },
}


def event(time: Any, name: str = "recovery:metrics_updated", **data: Any) -> dict[str, Any]:
    return {"time": time, "name": name, "data": data}


FIRST = event(10.5, min_rtt=10, smoothed_rtt=10, latest_rtt=10, rtt_variance=5, congestion_window=12000)
SECOND = event(20.5, min_rtt=10, smoothed_rtt=10.25, latest_rtt=12, rtt_variance=4.25)


def sequence(path: Path, *values: Any, header: dict[str, Any] = HEADER) -> Path:
    path.write_bytes(b"".join(b"\x1e" + json.dumps(record).encode() + b"\n" for record in (header, *values)))
    return path


def whole(path: Path, *events: Any, **about: Any) -> Path:
    trace = {**HEADER["trace"], "events": list(events)}  # type: ignore[dict-item]
    path.write_text(json.dumps({"qlog_version": "0.3", "qlog_format": "JSON", "traces": [trace], **about}))
    return path


@pytest.mark.parametrize("write", [sequence, whole])
def test_rows_by_hand(tmp_path: Path, write: Any) -> None:
    """Rows start at the first sample. A value that an event omits keeps its previous value."""
    initial = event(0.5, smoothed_rtt=333, rtt_variance=166.5)
    events = [
        event(0, "transport:packet_sent", header={}),
        initial,
        event(1, pto_count=1),
        FIRST,
        event(11, bytes_in_flight=5),
        SECOND,
        event(30, latest_rtt=11),
        event(40, pto_count=2),
    ]
    rows = list(read.metrics(write(tmp_path / "x.qlog", *events)))
    assert [row["number"] for row in rows] == [1, 2, 3, 4]
    assert rows[0] == {
        "qlog_file": "x.qlog",
        "odcid": "8394c8f03e515708",
        "side": "client",
        "number": 1,
        "time_us": 10_500,
        "latest_rtt_us": 10_000,
        "min_rtt_us": 10_000,
        "smoothed_rtt_us": 10_000,
        "rtt_variance_us": 5000,
        "pto_us": 30_000,
        "pto_count": 1,
        "updated": True,
    }
    assert [(row["pto_us"], row["updated"], row["pto_count"]) for row in rows[1:]] == [
        (27_250, True, 1),
        (27_250, False, 1),
        (27_250, False, 2),
    ]
    assert [row["latest_rtt_us"] for row in rows] == [10_000, 12_000, 11_000, 11_000]


def test_an_initial_rtt_is_no_sample_however_late_the_first_packet_was_sent(tmp_path: Path) -> None:
    initial: dict[str, Any] = {"min_rtt": 333, "smoothed_rtt": 333, "latest_rtt": 333, "rtt_variance": 166.5}
    started = event(0, "connectivity:connection_started")
    sent = event(400, "transport:packet_sent")
    events = [started, sent, event(400.1, **initial), event(450, **{**initial, "latest_rtt": 50})]
    rows = list(read.metrics(sequence(tmp_path / "x.sqlog", *events)))
    assert [(row["time_us"], row["latest_rtt_us"]) for row in rows] == [(450_000, 50_000)]


@pytest.mark.parametrize("sent", ["transport:packet_sent", "quic:packet_sent"])
def test_an_initial_rtt_is_no_sample(tmp_path: Path, sent: str) -> None:
    """tquic calls it the latest one; a sample is never longer than the time since the first packet."""
    initial: dict[str, Any] = {"min_rtt": 333, "smoothed_rtt": 333, "latest_rtt": 333, "rtt_variance": 166.5}
    events = [event(0.1, **initial), event(0.2, pto_count=0), FIRST, event(11, pto_count=1), SECOND]
    rows = list(read.metrics(sequence(tmp_path / "x.sqlog", event(0, sent), *events)))
    assert [row["latest_rtt_us"] for row in rows] == [10_000, 10_000, 12_000]
    assert [row["updated"] for row in rows] == [True, False, True]
    # A log without packets may start late, so no sample is skipped.
    rows = list(read.metrics(sequence(tmp_path / "x.sqlog", *events)))
    assert rows[0]["latest_rtt_us"] == 333_000


@pytest.mark.parametrize(("latest", "rows"), [(10, 1), (30, 1), (31, 0), (100, 0)])
def test_a_packet_may_be_logged_late(tmp_path: Path, latest: int, rows: int) -> None:
    """The event is 10 ms after the first packet, but the clock may have been read 20 ms earlier."""
    sent = event(4, "transport:packet_sent")
    sample = event(14, min_rtt=latest, smoothed_rtt=latest, latest_rtt=latest, rtt_variance=latest / 2)
    assert len(list(read.metrics(sequence(tmp_path / "x.sqlog", sent, sample)))) == rows


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("absolute", [0, 10_000]),
        ("relative", [0, 10_000]),
        ("relative_to_epoch", [0, 10_000]),
        ("delta", [0, 20_500]),
        ("relative_to_previous_event", [0, 20_500]),
    ],
)
def test_times_are_since_the_first_event(tmp_path: Path, form: str, expected: list[int]) -> None:
    common = {"time_format": form}
    header = {**HEADER, "trace": {**HEADER["trace"], "common_fields": common}}  # type: ignore[dict-item]
    rows = list(read.metrics(sequence(tmp_path / "x.sqlog", FIRST, SECOND, header=header)))
    assert [row["time_us"] for row in rows] == expected
    assert rows[0]["odcid"] is None


@pytest.mark.parametrize("form", ["relative", "delta"])
def test_times_that_are_too_late_are_refused(tmp_path: Path, form: str) -> None:
    """The latest accepted time fits in microseconds; the sum of two such times does not."""
    header = {**HEADER, "trace": {**HEADER["trace"], "common_fields": {"time_format": form}}}  # type: ignore[dict-item]
    start, late = {**FIRST, "time": 0}, {**SECOND, "time": 1e15}
    for later in (late, {**SECOND, "time": 1e306}, {**SECOND, "time": 2e15}):
        rows = read.metrics(sequence(tmp_path / "x.sqlog", start, late, later, header=header))
        assert [next(rows)["time_us"], next(rows)["time_us"]] == [0, 10**18]
        if later is late and form == "relative":
            assert next(rows)["time_us"] == 10**18
        else:
            with pytest.raises(InputError, match=r"record 4 has .* as time, which is out of range"):
                next(rows)


@pytest.mark.parametrize(
    ("about", "name"),
    [
        ({"qlog_version": "0.4"}, "recovery:metrics_updated"),
        ({"file_schema": "urn:ietf:params:qlog:file:sequential"}, "quic:recovery_metrics_updated"),
    ],
)
def test_later_drafts(tmp_path: Path, about: dict[str, Any], name: str) -> None:
    header = {"trace": HEADER["trace"], **about}
    assert len(list(read.metrics(sequence(tmp_path / "x", {**FIRST, "name": name}, header=header)))) == 1


def test_the_granularity_is_the_rfc_s(tmp_path: Path) -> None:
    steady = event(1, smoothed_rtt=0.5, latest_rtt=0.5, rtt_variance=0.01)
    assert next(read.metrics(sequence(tmp_path / "x", steady)))["pto_us"] == 1500


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"smoothed_rtt": True}, "has no number as smoothed_rtt"),
        ({"smoothed_rtt": "10"}, "has no number as smoothed_rtt"),
        ({"latest_rtt": -1}, "out of range"),
        ({"latest_rtt": 1e10}, "out of range"),
        ({"latest_rtt": 10**400}, "out of range"),
        ({"min_rtt": None}, "has no number as min_rtt"),
        ({"min_rtt": [[]]}, "has no number as min_rtt"),
        ({"pto_count": 1.5}, "pto_count"),
        ({"pto_count": -1}, "pto_count"),
        ({"pto_count": 1 << 40}, "pto_count"),
        ({"pto_count": True}, "pto_count"),
    ],
)
@pytest.mark.parametrize("write", [sequence, whole])
def test_values_of_another_kind_are_refused(
    tmp_path: Path, write: Any, changed: dict[str, Any], why: str
) -> None:
    """Such values are never clamped or guessed. Earlier rows remain valid."""
    wrong = {**SECOND, "data": {**SECOND["data"], **changed}}
    rows = read.metrics(write(tmp_path / "x", FIRST, wrong))
    assert next(rows)["number"] == 1
    with pytest.raises(InputError, match=why):
        next(rows)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[]", "is not an object"),
        (b"\xff{}", "is not JSON"),
        (b'{"a":' * 100_000, "is not JSON: RecursionError"),
        (b"[" * 100_000, "is not JSON: RecursionError"),
        (b"{}", "has no traces"),
        (b'{"qlog_version":"0.3","traces":{}}', "has no traces"),
        (b'{"qlog_version":"0.3","traces":[1]}', "trace 1 has no trace"),
        (b'{"qlog_version":"0.3","traces":[{}]}', "trace 1 has no list of events"),
        (b'{"qlog_version":"0.3","traces":[{"events":[1]}]}', "event 1 of trace 1 is not an object"),
        (b'{"qlog_version":"0.3","traces":[{"events":[{"name":"a"}]}]}', "has no number as time"),
        (b'{"qlog_version":"0.3","traces":[{"events":[{"time":NaN}]}]}', "NaN is not a number"),
        (b'{"qlog_version":"0.3","traces":[{"events":[{"time":1e999}]}]}', "out of range"),
        (b'{"qlog_version":"0.3","traces":[{"common_fields":[]}]}', "that are not objects"),
        (b'{"qlog_version":"0.3","traces":[{"common_fields":{"time_format":[]}}]}', "time format"),
        (b'{"qlog_version":"draft-01","traces":[{"events":[]}]}', "qlog version 'draft-01'"),
        (b'{"traces":[{"events":[]}]}', "qlog version 'None'"),
        (b'{"qlog_version":[],"traces":[{"events":[]}]}', "qlog version '[]'"),
        (b'{"qlog_version":"0.3","traces":[{"events":[{"time":1,"name":[]}]}]}', "has no name"),
        (b"\x1e1\n", "record 1 is not an object"),
        (b"\x1e{}\n", "qlog version 'None'"),
        (b'\x1e{"qlog_version":"0.3"}\n', "record 1 has no trace"),
        (b"\x1e" + b" " * (read.MOST_OF_A_RECORD + 100_000), "is longer than"),
        (b"\x1e" + b'{"a":' * 100_000 + b"\n", "is not JSON: RecursionError"),
    ],
    ids=range(25),
)
def test_hostile_files_are_refused_in_one_sentence(tmp_path: Path, text: bytes, why: str) -> None:
    path = tmp_path / "x.qlog"
    path.write_bytes(text)
    with pytest.raises(InputError) as refused:
        list(read.metrics(path))
    assert why in str(refused.value)
    assert str(path) in str(refused.value)
    assert len(str(refused.value)) < 400 and "\n" not in str(refused.value)


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.qlog"
    path.write_bytes(b"{")
    os.truncate(path, read.MOST_BYTES + 1)
    with pytest.raises(InputError, match="is longer than 256 MB"):
        list(read.metrics(path))


def test_a_cut_off_record_ends_the_rows(tmp_path: Path) -> None:
    """A program that is killed writes half a record (RFC 7464, 2.3); in the middle it is a fault."""
    path = sequence(tmp_path / "x.sqlog", FIRST, SECOND)
    path.write_bytes(path.read_bytes()[:-9])
    rows = read.metrics(path)
    assert next(rows)["number"] == 1
    with pytest.raises(InputError, match="record 3, the last one, is cut off"):
        next(rows)
    path.write_bytes(path.read_bytes() + b"\x1e" + json.dumps(SECOND).encode() + b"\n")
    with pytest.raises(InputError, match="record 3 is not JSON"):
        list(read.metrics(path))


def test_the_command_prints_rows_and_names_damaged_files(tmp_path: Path) -> None:
    good, bad = sequence(tmp_path / "good", FIRST, SECOND), tmp_path / "bad"
    bad.write_text("{}")
    command = [sys.executable, "-P", "-m", "cli", "qlog-metrics"]
    command += map(str, (bad, good, tmp_path / "missing"))
    root = Path(read.__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    out, err = done.stdout, done.stderr
    assert done.returncode == 3
    assert [json.loads(line)["number"] for line in out.splitlines()] == [1, 2]
    assert err.count("\n") == 1
    assert "has no traces" in err and "missing" in err


def test_aioquic_s_own_file(tmp_path: Path) -> None:
    """The real stack writes the file over loopback; the rows have the samples that it logged."""
    from aioquic.asyncio.client import connect
    from aioquic.asyncio.server import serve
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.logger import QuicLogger

    from lab.hosts.certificates import issue, make_authority

    files = issue(make_authority(tmp_path), "server", ["localhost"])

    async def exchange() -> QuicLogger:
        server_configuration = QuicConfiguration(is_client=False, alpn_protocols=["x"])
        server_configuration.load_cert_chain(files.chain, files.key)
        server = await serve("127.0.0.1", 0, configuration=server_configuration)
        assert server._transport is not None
        port = server._transport.get_extra_info("sockname")[1]
        logger = QuicLogger()
        client_configuration = QuicConfiguration(alpn_protocols=["x"], quic_logger=logger, verify_mode=0)
        async with connect("127.0.0.1", port, configuration=client_configuration) as client:
            for _ in range(3):
                await client.ping()
        server.close()
        return logger

    path = tmp_path / "client.qlog"
    log = asyncio.run(exchange()).to_dict()
    (trace,) = log["traces"]
    # On a busy machine, the first packet may be logged too late (test_a_packet_may_be_logged_late).
    trace["events"] = [event for event in trace["events"] if event["name"] != "transport:packet_sent"]
    path.write_text(json.dumps(log))
    logged = [
        event["data"]["latest_rtt"]
        for event in trace["events"]
        if event["name"] == "recovery:metrics_updated" and "latest_rtt" in event["data"]
    ]
    assert logged
    rows = list(read.metrics(path))
    assert [row["latest_rtt_us"] for row in rows] == [round(ms * 1000) for ms in logged]
    assert {(row["side"], row["updated"]) for row in rows[:1]} == {("client", True)}
    first = rows[0]
    assert first["pto_us"] == pytest.approx(
        first["latest_rtt_us"] + max(2 * first["latest_rtt_us"], 1000), abs=3
    )
    assert len(str(first["odcid"])) >= 16
