"""Reads a stack's own qlog file: its estimates of the RTT, and the probe timeout that follows from them.

JSON and JSON-SEQ (RFC 7464), as drafts 03 and 04 of the main schema (`qlog_version` 0.3, 0.4) and later ones
(`file_schema`) have them. A stack writes what it likes, so every value is checked; nothing is clamped.
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

Row = dict[str, Any]

MOST_BYTES = 256 << 20
"""Of a JSON file, which is read at once."""
MOST_OF_A_RECORD = 1 << 20
"""Of a record of JSON-SEQ, in bytes."""
LONGEST_MS = 1e9
"""No RTT is longer than twelve days."""
LATEST_MS = 1e15
"""No event is later than 30,000 years after 1970, or after the trace began: microseconds fit into 64 bits."""
GRANULARITY_US = 1000
"""kGranularity of RFC 9002, section 6.1.2."""

_ROUNDED_MS = 1
"""Some stacks write whole milliseconds."""
_SEPARATOR = b"\x1e"
_BLOCK = 1 << 16
_VERSIONS = ("0.3", "0.4")
_SCHEMA = "urn:ietf:params:qlog:file:"
# Drafts 03, 04; 05 to 07; 08 and later, of quic-events.
_EVENTS = frozenset(
    {"recovery:metrics_updated", "recovery:recovery_metrics_updated", "quic:recovery_metrics_updated"}
)
_SENT = frozenset({"transport:packet_sent", "quic:packet_sent"})
_RTTS = ("latest_rtt", "min_rtt", "smoothed_rtt", "rtt_variance")
_SINCE_LAST = frozenset({"delta", "relative_to_previous_event"})
_FORMATS = frozenset({"absolute", "relative", "relative_to_epoch"}) | _SINCE_LAST


@dataclass
class _Trace:
    """What is known of a connection, so far. Times in ms."""

    odcid: str | None
    side: str | None
    since_last: bool
    first: float | None = None
    now: float = 0.0
    events: int = 0
    state: dict[str, float] = field(default_factory=dict)
    probes: int | None = None
    # When it has sent its first packet.
    sent_at: float | None = None
    sampled: bool = False
    before: tuple[float, float] | None = None


def metrics(path: Path) -> Iterator[Row]:
    """Yield a row for each event of a qlog file that names an RTT or the number of probe timeouts in a row.

    Entries before a connection's first RTT sample are left out. `time_us` is since the trace's first event;
    `pto_us` is RFC 9002's (6.2.1), without max_ack_delay, which counts once the handshake is confirmed;
    `updated`: smoothed RTT or variation differ from those of the row before.

    InputError names what is wrong, and where: no qlog file, another version, a value of another type or out
    of range. If the last record of a JSON-SEQ file is cut off, it comes after all rows.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(1)
            file.seek(0)
            yield from _sequence(path, file) if begin == _SEPARATOR else _whole(path, file)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _sequence(path: Path, file: BinaryIO) -> Iterator[Row]:
    trace: _Trace | None = None
    for number, (text, ended) in enumerate(_records(path, file)):
        where = f"record {number + 1}"
        try:
            value = _parsed(path, where, text)
        except InputError:
            if ended:
                raise
            # RFC 7464, section 2.3: a program that was ended writes half a record.
            raise InputError(f"{path}: {where}, the last one, is cut off") from None
        if trace is None:
            trace = _trace(path, where, value.get("trace"), value)
        else:
            yield from _rows(path, where, trace, value)


def _records(path: Path, file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield each record, and whether it is known to be whole: it ends with a line feed."""
    rest = b""
    while block := file.read(_BLOCK):
        *whole, rest = (rest + block).split(_SEPARATOR)
        for text in whole:
            if text.strip():
                yield text, True
        if len(rest) > MOST_OF_A_RECORD:
            _refuse(path, "a record", f"is longer than {MOST_OF_A_RECORD} bytes")
    if rest.strip():
        yield rest, rest.endswith(b"\n")


def _whole(path: Path, file: BinaryIO) -> Iterator[Row]:
    text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        _refuse(path, "it", f"is longer than {MOST_BYTES >> 20} MB")
    value = _parsed(path, "it", text)
    traces = value.get("traces")
    if not isinstance(traces, list):
        _refuse(path, "it", "has no traces: it is no qlog file, or of another version")
    for number, one in enumerate(traces, start=1):
        trace = _trace(path, f"trace {number}", one, value)
        events = one.get("events")
        if not isinstance(events, list):
            _refuse(path, f"trace {number}", "has no list of events")
        for place, event in enumerate(events, start=1):
            where = f"event {place} of trace {number}"
            if not isinstance(event, dict):
                _refuse(path, where, "is no object")
            yield from _rows(path, where, trace, event)


def _parsed(path: Path, where: str, text: bytes) -> Row:
    """Return an object of JSON. InputError: it is none, nested too deep, or not in UTF-8."""
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {where} is not JSON: {type(error).__name__} {str(error)[:80]}") from error
    if not isinstance(value, dict):
        _refuse(path, where, "is no object")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _trace(path: Path, where: str, trace: Any, about: Row) -> _Trace:
    version, schema = about.get("qlog_version"), about.get("file_schema")
    if version not in _VERSIONS and not (isinstance(schema, str) and schema.startswith(_SCHEMA)):
        _refuse(path, "it", f"has qlog version {str(version)[:20]!r}, not {' or '.join(_VERSIONS)}")
    if not isinstance(trace, dict):
        _refuse(path, where, "has no trace")
    common, vantage = trace.get("common_fields", {}), trace.get("vantage_point", {})
    if not isinstance(common, dict) or not isinstance(vantage, dict):
        _refuse(path, where, "has common fields or a vantage point that are no objects")
    form = common.get("time_format", "relative")
    if not isinstance(form, str) or form not in _FORMATS:
        _refuse(path, where, f"has the time format {str(form)[:40]!r}, which no draft has")
    odcid = common.get("group_id", common.get("ODCID"))
    side = vantage.get("type")
    return _Trace(
        # Only what can be one: others are names that a stack made up.
        odcid=odcid.lower() if isinstance(odcid, str) and re.fullmatch(r"[0-9A-Fa-f]{2,40}", odcid) else None,
        side=side if side in ("client", "server", "network") else None,
        since_last=form in _SINCE_LAST,
    )


def _rows(path: Path, where: str, trace: _Trace, event: Row) -> Iterator[Row]:
    time = _number(path, where, "time", event.get("time"), LATEST_MS)
    sum_ = trace.now + time if trace.since_last else time
    trace.now = _number(path, where, "time", sum_, LATEST_MS)
    if trace.first is None:
        trace.first = trace.now
    name = event.get("name")
    if not isinstance(name, str):
        _refuse(path, where, "has no name")
    if trace.sent_at is None and name in _SENT:
        trace.sent_at = trace.now
    if name not in _EVENTS:
        return
    data = event.get("data")
    if not isinstance(data, dict):
        _refuse(path, where, "has no data")
    named = {name: _number(path, where, name, data[name], LONGEST_MS) for name in _RTTS if name in data}
    count = data.get("pto_count")
    if count is not None:
        if type(count) is not int or not 0 <= count < 1 << 32:
            _refuse(path, where, f"has the pto_count {str(count)[:40]}")
        trace.probes = count
    trace.state |= named
    state = trace.state
    trace.sampled = trace.sampled or _is_sample(trace)
    if not trace.sampled or not (named or count is not None):
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
    """Return whether the state has a sample: before the first one a stack writes its initial RTT, or zeros.

    An initial RTT that is called the latest one is longer than the time since the first packet was sent.
    """
    latest = trace.state.get("latest_rtt", 0)
    if latest <= 0 or not {"smoothed_rtt", "rtt_variance"} <= trace.state.keys():
        return False
    return trace.sent_at is None or latest <= trace.now - trace.sent_at + _ROUNDED_MS


def _number(path: Path, where: str, name: str, value: Any, most: float) -> float:
    """Return a number from 0 to `most`."""
    # A boolean is an int in Python.
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, where, f"has no number as {name}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 <= number <= most or math.isinf(number):
        _refuse(path, where, f"has {str(value)[:40]} as {name}, which is out of range")
    return number


def _refuse(path: Path, where: str, what: str) -> NoReturn:
    raise InputError(f"{path}: {where} {what}")
