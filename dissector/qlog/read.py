"""Reads a stack's qlog file: its RTT estimates, and the probe timeout computed from them.

Supports JSON and JSON-SEQ (RFC 7464), with drafts 03 and 04 of the main schema (`qlog_version` 0.3, 0.4) and
later drafts (`file_schema`). Stacks deviate from the drafts, so every value is checked. No value is clamped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from firstflight.errors import InputError

MetricsRow = dict[str, Any]
"""A row of the state after an event with recovery metrics."""

MOST_BYTES = 256 << 20
"""Largest JSON file. It is read into memory as a whole."""
MOST_OF_A_RECORD = 1 << 20
"""Largest record of JSON-SEQ, in bytes."""
LONGEST_MS = 1e9
"""Longest valid RTT: about twelve days."""
LATEST_MS = 1e15
"""Latest valid time of an event: 30,000 years after 1970 or after the trace's start, so microseconds fit into
64 bits."""
GRANULARITY_US = 1000
"""kGranularity of RFC 9002, section 6.1.2."""

_LATE_MS = 20
"""A busy stack may log a packet this much later than it read the clock. Initial RTTs are longer."""
_SEPARATOR = b"\x1e"
_BLOCK = 1 << 16
_VERSIONS = ("0.3", "0.4")
_SCHEMA = "urn:ietf:params:qlog:file:"
# Names in drafts 03 and 04; in 05 to 07; in 08 and later drafts of quic-events.
_EVENTS = frozenset(
    {"recovery:metrics_updated", "recovery:recovery_metrics_updated", "quic:recovery_metrics_updated"}
)
_SENT = frozenset({"transport:packet_sent", "quic:packet_sent"})
_RTTS = ("latest_rtt", "min_rtt", "smoothed_rtt", "rtt_variance")
_SINCE_LAST = frozenset({"delta", "relative_to_previous_event"})
_FORMATS = frozenset({"absolute", "relative", "relative_to_epoch"}) | _SINCE_LAST


@dataclass
class _Trace:
    """The state of a connection's trace. Times in ms."""

    odcid: str | None
    side: str | None
    since_last: bool
    first: float | None = None
    now: float = 0.0
    events: int = 0
    state: dict[str, float] = field(default_factory=dict)
    probes: int | None = None
    # Time of the first sent packet.
    sent_at: float | None = None
    sampled: bool = False
    before: tuple[float, float] | None = None


def metrics(path: Path) -> Iterator[MetricsRow]:
    """Yield a row for each event in a qlog file that has an RTT or the number of consecutive probe timeouts.

    Skips events before a connection's first RTT sample. In a log with whole milliseconds, a sample below
    1 ms is 0, as before the first one, and is skipped too. `time_us` counts from the trace's first event.
    `pto_us` follows RFC 9002 (6.2.1), without max_ack_delay, which only counts after the handshake is
    confirmed.
    `updated`: smoothed RTT or variation differ from the previous row.

    InputError describes the fault and the position: not a qlog file, another version, a value of the wrong
    type or out of range. If the last record in a JSON-SEQ file is cut off, the error follows all rows.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(1)
            file.seek(0)
            yield from _sequence(path, file) if begin == _SEPARATOR else _whole(path, file)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _sequence(path: Path, file: BinaryIO) -> Iterator[MetricsRow]:
    trace: _Trace | None = None
    for number, (text, is_complete) in enumerate(_records(path, file)):
        location = f"record {number + 1}"
        try:
            value = _parsed(path, location, text)
        except InputError:
            if is_complete:
                raise
            # RFC 7464, section 2.3: a terminated program may leave an incomplete record.
            raise InputError(f"{path}: {location}, the last one, is cut off") from None
        if trace is None:
            trace = _trace(path, location, value.get("trace"), value)
        else:
            yield from _rows(path, location, trace, value)


def _records(path: Path, file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield each record, and whether it is known to be complete because a line feed follows it."""
    rest = b""
    while block := file.read(_BLOCK):
        *texts, rest = (rest + block).split(_SEPARATOR)
        for text in texts:
            if text.strip():
                yield text, True
        if len(rest) > MOST_OF_A_RECORD:
            _refuse(path, "a record", f"is longer than {MOST_OF_A_RECORD} bytes")
    if rest.strip():
        yield rest, rest.endswith(b"\n")


def _whole(path: Path, file: BinaryIO) -> Iterator[MetricsRow]:
    text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        _refuse(path, "it", f"is longer than {MOST_BYTES >> 20} MB")
    value = _parsed(path, "it", text)
    traces = value.get("traces")
    if not isinstance(traces, list):
        _refuse(path, "it", "has no traces: it is not a qlog file, or has another version")
    for number, raw_trace in enumerate(traces, start=1):
        trace = _trace(path, f"trace {number}", raw_trace, value)
        events = raw_trace.get("events")
        if not isinstance(events, list):
            _refuse(path, f"trace {number}", "has no list of events")
        for position, event in enumerate(events, start=1):
            location = f"event {position} of trace {number}"
            if not isinstance(event, dict):
                _refuse(path, location, "is not an object")
            yield from _rows(path, location, trace, event)


def _parsed(path: Path, location: str, text: bytes) -> dict[str, Any]:
    """Return a JSON object. InputError if `text` is not an object, too deeply nested, or not UTF-8."""
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: {location} is not JSON: {type(error).__name__} {str(error)[:80]}"
        ) from error
    if not isinstance(value, dict):
        _refuse(path, location, "is not an object")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _trace(path: Path, location: str, trace: Any, header: dict[str, Any]) -> _Trace:
    version, schema = header.get("qlog_version"), header.get("file_schema")
    if version not in _VERSIONS and not (isinstance(schema, str) and schema.startswith(_SCHEMA)):
        _refuse(path, "it", f"has qlog version {str(version)[:20]!r}, not {' or '.join(_VERSIONS)}")
    if not isinstance(trace, dict):
        _refuse(path, location, "has no trace")
    common, vantage = trace.get("common_fields", {}), trace.get("vantage_point", {})
    if not isinstance(common, dict) or not isinstance(vantage, dict):
        _refuse(path, location, "has common fields or a vantage point that are not objects")
    time_format = common.get("time_format", "relative")
    if not isinstance(time_format, str) or time_format not in _FORMATS:
        _refuse(path, location, f"has the unknown time format {str(time_format)[:40]!r}")
    odcid = common.get("group_id", common.get("ODCID"))
    side = vantage.get("type")
    return _Trace(
        # Only a connection ID: other values are names that a stack made up.
        odcid=odcid.lower() if isinstance(odcid, str) and re.fullmatch(r"[0-9A-Fa-f]{2,40}", odcid) else None,
        side=side if side in ("client", "server", "network") else None,
        since_last=time_format in _SINCE_LAST,
    )


def _rows(path: Path, location: str, trace: _Trace, event: dict[str, Any]) -> Iterator[MetricsRow]:
    time = _number(path, location, "time", event.get("time"), LATEST_MS)
    absolute = trace.now + time if trace.since_last else time
    trace.now = _number(path, location, "time", absolute, LATEST_MS)
    if trace.first is None:
        trace.first = trace.now
    name = event.get("name")
    if not isinstance(name, str):
        _refuse(path, location, "has no name")
    if trace.sent_at is None and name in _SENT:
        trace.sent_at = trace.now
    if name not in _EVENTS:
        return
    data = event.get("data")
    if not isinstance(data, dict):
        _refuse(path, location, "has no data")
    rtts = {name: _number(path, location, name, data[name], LONGEST_MS) for name in _RTTS if name in data}
    count = data.get("pto_count")
    if count is not None:
        if type(count) is not int or not 0 <= count < 1 << 32:
            _refuse(path, location, f"has the pto_count {str(count)[:40]}")
        trace.probes = count
    trace.state |= rtts
    state = trace.state
    trace.sampled = trace.sampled or _is_sample(trace)
    if not trace.sampled or not (rtts or count is not None):
        return
    trace.events += 1
    now = state["smoothed_rtt"], state["rtt_variance"]
    smoothed_us, variance_us = (1000 * value for value in now)
    yield {
        "qlog_file": path.name,
        "odcid": trace.odcid,
        "side": trace.side,
        "number": trace.events,
        "time_us": round(1000 * (trace.now - trace.first)),
        **{f"{name}_us": round(1000 * state[name]) if name in state else None for name in _RTTS},
        "pto_us": round(smoothed_us + max(4 * variance_us, GRANULARITY_US)),
        "pto_count": trace.probes,
        "updated": now != trace.before,
    }
    trace.before = now


def _is_sample(trace: _Trace) -> bool:
    """Return whether the state has a sample. Before the first one, a stack writes its initial RTT, or zeros.

    A latest RTT that exceeds the time since the first sent packet by more than `_LATE_MS` is an initial RTT.
    """
    latest = trace.state.get("latest_rtt", 0)
    if latest <= 0 or not {"smoothed_rtt", "rtt_variance"} <= trace.state.keys():
        return False
    return trace.sent_at is None or latest <= trace.now - trace.sent_at + _LATE_MS


def _number(path: Path, location: str, name: str, value: Any, maximum: float) -> float:
    """Return a number from 0 to `most`."""
    # A boolean is an int in Python.
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, location, f"has no number as {name}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 <= number <= maximum or math.isinf(number):
        _refuse(path, location, f"has {str(value)[:40]} as {name}, which is out of range")
    return number


def _refuse(path: Path, location: str, problem: str) -> NoReturn:
    raise InputError(f"{path}: {location} {problem}")
