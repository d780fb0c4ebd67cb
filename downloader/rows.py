"""Rows of downloads: what the clients answered, with what the captures say of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from downloader import outcome
from downloader.clients.contract import Answer
from downloader.flows import Flow, Flows
from downloader.option_sets import SETS, WARMUP
from firstflight import capture_files
from firstflight.errors import InputError

# Columns of a row by headers of the response.
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
    "mss_server",
    "wscale_server",
)
_OPTIONS = {
    "sack_server": "sack_permitted_server",
    "timestamps_server": "timestamps_server",
    "ecn_server": "ecn_setup_server",
}


def rows(entries: Iterable[Mapping[str, Any]], flows: Flows, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield one row for each entry of a session, in order: the columns of `download` that it decides.

    `folder` holds the captures. An entry without answer has only its outcome. InputError for an entry that is
    broken.
    """
    drops, cut = _drops(folder), _cut(folder)
    warmups: dict[int, Answer] = {}
    for kept in entries:
        try:
            answer = None if kept["answer"] is None else Answer(**kept["answer"])
            if answer is not None and kept["set"] == WARMUP:
                warmups[kept["line"]] = answer
            yield _row(kept, answer, warmups.get(kept["line"]), flows, drops, cut)
        except (KeyError, TypeError) as error:
            raise InputError(f"an answer in {folder} is broken ({error}): remove the line") from error


def _row(
    kept: Mapping[str, Any],
    answer: Answer | None,
    warmup: Answer | None,
    flows: Flows,
    drops: Mapping[str, int | None],
    cut: Mapping[str, int | None],
) -> dict[str, Any]:
    one = SETS[kept["set"]]
    row: dict[str, Any] = {name: kept[name] for name in ("url", "domain", "ip", "port", "set", "position")}
    row |= {"ip": kept["ip"] or None, "client": one.client, "client_version": kept["client_version"]}
    row["quic_capable"] = kept.get("quic_capable")
    if answer is None:
        detail = kept.get("no_quic") if one.protocol == "udp" and kept["why"] == "skipped" else None
        return row | _nothing(kept["why"]) | {"detail": detail}
    flow = flows.of(answer, one.name)
    headers = answer.headers or {}
    age = headers.get("age", "")
    capture_file = None if flow is None else Path(flow["source_file"]).name
    return row | {
        "outcome": outcome.of(answer, None if one.name == WARMUP else warmup, one, flow),
        **{name: getattr(answer, name) for name in _OF_ANSWER},
        "body_bytes": answer.body_bytes,
        **{name: headers.get(header) for name, header in _HEADERS.items()},
        "cache": next((headers[name] for name in _CACHE if name in headers), None),
        "age": int(age) if age.isdecimal() and len(age) < 10 else None,
        **_of_flow(flow),
        "options_as_set": outcome.offered(one, flow),
        "client_limited": outcome.client_limited(answer, flow, drops.get(capture_file or "")),
        "capture_file": capture_file,
        "capture_cut": cut.get(one.name),
        "flow_started_at": None if flow is None else flow["start_time_ns"],
    }


def _nothing(why: str) -> dict[str, Any]:
    """Return the columns of a download for which nothing was sent."""
    empty = (*_OF_ANSWER, *_HEADERS, "cache", "age", *_OF_FLOW, *_OPTIONS)
    more = ("options_as_set", "client_limited", "capture_file", "capture_cut", "flow_started_at")
    return {"outcome": why, "body_bytes": 0, **dict.fromkeys((*empty, *more))}


def _of_flow(flow: Flow | None) -> dict[str, Any]:
    found = flow or {}
    return {name: found.get(name) for name in _OF_FLOW} | {
        name: found.get(column) for name, column in _OPTIONS.items()
    }


def _drops(folder: Path) -> dict[str, int | None]:
    """Return by capture how many packets it lost; None if that is not known."""
    found: dict[str, int | None] = {}
    for record in capture_files.records(folder):
        known = (record.dropped_by_kernel, record.dropped_by_interface)
        found[record.file] = None if record.captured is None else sum(count or 0 for count in known)
    return found


def _cut(folder: Path) -> dict[str, int | None]:
    """Return by set how many packets its captures lack because of their limit; None if that is not known."""
    found: dict[str, int | None] = {}
    for record in capture_files.records(folder):
        name = record.file.partition(".")[0].partition("-")[0]
        before = found.get(name, 0)
        found[name] = None if record.cut is None or before is None else before + record.cut
    return found


def captures(folder: Path) -> list[Path]:
    """Return the closed captures of a session's folder."""
    return sorted(path for path in folder.glob("*.pcap") if path.is_file())


def key_logs(folder: Path) -> list[Path]:
    """Return the key logs of a session's folder that hold something."""
    return sorted(path for path in folder.glob("*.keys") if path.stat().st_size)
