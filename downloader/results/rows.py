"""Builds rows of downloads from the clients' answers and the captures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from downloader.clients.contract import ClientAnswer
from downloader.option_sets import SETS, WARMUP
from downloader.results import outcome
from downloader.results.flows import Flow, Flows
from firstflight import capture_files
from firstflight.errors import InputError

# Columns and the response headers in them.
_HEADERS = {
    "content_type": "content-type",
    "content_encoding": "content-encoding",
    "etag": "etag",
    "last_modified": "last-modified",
    "cache_control": "cache-control",
    "server_header": "server",
    "via": "via",
    "alt_svc": "alt-svc",
    "location": "location",
}
_CACHE = ("cf-cache-status", "x-cache")
_OF_ANSWER = (
    "detail",
    "started_at",
    "connect_us",
    "tls_us",
    "first_byte_us",
    "duration_us",
    "cpu_us",
    "status",
    "http_version",
    "tls_version",
    "cipher",
    "tls_group",
    "tls_verified",
    "content_length",
    "receive_buffer",
    "udp_drops",
    "wire_bytes",
    "client_port",
)
_OF_FLOW = (
    "anrw_throughput_bps",
    "anrw_goodput_bps",
    "download_throughput_bps",
    "application_goodput_bps",
    "rtt_mean_us",
    "rtt_p50_us",
    "retransmission_rate",
    "limited_by",
    "mss_server",
    "wscale_server",
)
_OPTIONS = {
    "sack_server": "sack_permitted_server",
    "timestamps_server": "timestamps_server",
    "ecn_server": "ecn_setup_server",
}


def rows(entries: Iterable[Mapping[str, Any]], flows: Flows, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield one row for each entry in a session, in order, with the columns of `download` known here.

    `folder` contains the captures. A row of an entry without an answer has only an outcome. Raise InputError
    for an invalid entry.
    """
    drops, cut = _drops(folder), _cut(folder)
    warmups: dict[int, ClientAnswer] = {}
    for entry in entries:
        try:
            answer = None if entry["answer"] is None else ClientAnswer(**entry["answer"])
            if answer is not None and entry["set"] == WARMUP:
                warmups[entry["line"]] = answer
            yield _row(entry, answer, warmups.get(entry["line"]), flows, drops, cut)
        except (KeyError, TypeError) as error:
            raise InputError(f"an answer in {folder} is broken ({error}): remove the line") from error


def _row(
    entry: Mapping[str, Any],
    answer: ClientAnswer | None,
    warmup: ClientAnswer | None,
    flows: Flows,
    drops: Mapping[str, int | None],
    cut: Mapping[str, int | None],
) -> dict[str, Any]:
    option_set = SETS[entry["set"]]
    row: dict[str, Any] = {name: entry[name] for name in ("url", "domain", "port", "set", "position")}
    row |= {name: entry[name] or None for name in ("ip", "drawn_ip")}
    row |= {name: entry[name] for name in ("target_set", "resolved_at", "resolved_status")}
    row |= {"client": option_set.client, "client_version": entry["client_version"]}
    row["protocol"] = "quic" if option_set.is_quic else "tcp"
    row["quic_capable"] = entry.get("quic_capable")
    if answer is None:
        detail = entry.get("no_quic") if option_set.is_quic and entry["why"] == "skipped" else None
        return row | _empty_columns(entry["why"]) | {"detail": detail}
    flow = flows.of(answer, option_set.name)
    headers = answer.headers or {}
    age = headers.get("age", "")
    capture_file = None if flow is None else Path(flow["source_file"]).name
    return row | {
        "outcome": outcome.of(answer, None if option_set.name == WARMUP else warmup, option_set, flow),
        **{name: getattr(answer, name) for name in _OF_ANSWER},
        "detail": answer.detail or outcome.human_verification(answer),
        "body_bytes": answer.body_bytes,
        **{name: headers.get(header) for name, header in _HEADERS.items()},
        "cache": next((headers[name] for name in _CACHE if name in headers), None),
        "age": int(age) if age.isdecimal() and len(age) < 10 else None,
        **_of_flow(flow),
        "options_as_set": outcome.offered(option_set, flow),
        "client_limited": outcome.client_limited(answer, flow, drops.get(capture_file or "")),
        "capture_file": capture_file,
        "capture_cut": cut.get(option_set.name),
        "flow_started_at": None if flow is None else flow["start_time_ns"],
    }


def _empty_columns(why: str) -> dict[str, Any]:
    """Return the columns for a download for which no packet was sent."""
    empty = (*_OF_ANSWER, *_HEADERS, "cache", "age", *_OF_FLOW, *_OPTIONS)
    more = ("options_as_set", "client_limited", "capture_file", "capture_cut", "flow_started_at")
    return {"outcome": why, "body_bytes": 0, **dict.fromkeys((*empty, *more))}


def _of_flow(flow: Flow | None) -> dict[str, Any]:
    values = flow or {}
    return {name: values.get(name) for name in _OF_FLOW} | {
        name: values.get(column) for name, column in _OPTIONS.items()
    }


def _drops(folder: Path) -> dict[str, int | None]:
    """Return the number of packets that each capture lost; `None` if unknown."""
    drops: dict[str, int | None] = {}
    for record in capture_files.records(folder):
        counts = (record.dropped_by_kernel, record.dropped_by_interface)
        drops[record.file] = None if record.captured is None else sum(count or 0 for count in counts)
    return drops


def _cut(folder: Path) -> dict[str, int | None]:
    """Return, per set, how many packets the size limit kept out of the captures; `None` if unknown."""
    cuts: dict[str, int | None] = {}
    for record in capture_files.records(folder):
        name = record.file.partition(".")[0].partition("-")[0]
        total = cuts.get(name, 0)
        cuts[name] = None if record.cut is None or total is None else total + record.cut
    return cuts


def captures(folder: Path) -> list[Path]:
    """Return the closed captures in a session's folder."""
    return sorted(path for path in folder.glob("*.pcap") if path.is_file())


def key_logs(folder: Path) -> list[Path]:
    """Return the non-empty key logs in a session's folder."""
    return sorted(path for path in folder.glob("*.keys") if path.stat().st_size)
