"""Finds each download's flow in the set's captures. The client's port and start time identify it."""

from __future__ import annotations

import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from downloader.clients.contract import ClientAnswer
from firstflight.system import binaries, children

KINDS = ("tcp_flow", "quic_connection")
# The client reads the clock before it opens its socket. The capture reads the same clock a moment later.
_EARLY_NS, _LATE_NS = 5_000_000, 50_000_000_000
_COLUMNS = (
    "source_file",
    "start_time_ns",
    "client_port",
    "server_ip",
    "anrw_throughput_bps",
    "anrw_goodput_bps",
    "download_throughput_bps",
    "application_goodput_bps",
)
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "tcp_flow": (
        *_COLUMNS,
        "mss_client",
        "mss_server",
        "wscale_client",
        "wscale_server",
        "sack_permitted_client",
        "sack_permitted_server",
        "timestamps_client",
        "timestamps_server",
        "ecn_setup_client",
        "ecn_setup_server",
        "rtt_mean_us",
        "rtt_p50_us",
        "retransmission_rate",
        "limited_by",
        "zero_windows_client",
    ),
    "quic_connection": (*_COLUMNS,),
}

Flow = dict[str, Any]


class Flows:
    """The flows in captures, indexed by set and client port."""

    def __init__(self, captures: Sequence[Path], keys: Sequence[Path]) -> None:
        """Dissect whole captures. Raise FirstflightError if the dissector can read no capture."""
        self.damaged: list[str] = []
        self._by_port: dict[tuple[str, int], list[Flow]] = defaultdict(list)
        if not captures:
            return
        with tempfile.TemporaryDirectory(dir=captures[0].parent, prefix="native.") as folder:
            argv = [str(binaries.find("firstflight-dissect")), *map(str, captures)]
            argv += [word for path in keys for word in ("--keys", str(path))]
            argv += ["--kind", ",".join(KINDS), "--format", "parquet", "--out", folder]
            process = children.start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            _, stderr = children.wait_for_exit(process)
            files = {kind: Path(folder) / f"{kind}.parquet" for kind in KINDS}
            self.damaged = binaries.unreadable(process.returncode, stderr, files[KINDS[-1]])
            for kind, path in files.items():
                self._read(path, kind)

    def of(self, answer: ClientAnswer, capture: str) -> Flow | None:
        """Return a download's flow in the captures of the set `capture`; `None` if no flow matches."""
        if answer.client_port is None or answer.started_at is None:
            return None
        begin = answer.started_at - _EARLY_NS
        end = answer.started_at + (answer.duration_us or 0) * 1000 + _EARLY_NS
        for flow in self._by_port[(capture, answer.client_port)]:
            if begin <= flow["start_time_ns"] <= min(end, answer.started_at + _LATE_NS):
                return flow
        return None

    def _read(self, path: Path, kind: str) -> None:
        rows = pq.read_table(path, columns=list(COLUMNS[kind])).to_pylist()
        for row in sorted(rows, key=lambda row: row["start_time_ns"]):
            name = Path(row["source_file"]).name.removesuffix(".pcap").partition("-")[0]
            self._by_port[(name, row["client_port"])].append({**row, "kind": kind})
