"""Runs of the native prober for benches: lists of loopback targets, and a run's cost."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import process
from firstflight.system import binaries


@dataclass(frozen=True)
class ProberRunCost:
    """A run's cost, and the prober's summary."""

    used: process.Used
    summary: dict[str, Any]


def targets_in(folder: Path, port: int, targets: int) -> Path:
    """Write a list of `targets` loopback addresses with `port` into `folder`; return the path."""
    path = folder / "targets.csv"
    with path.open("w") as out:
        out.write("ip,domain,port\n")
        for i in range(1, targets + 1):
            out.write(f"127.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255},www.example-{i:07}.test,{port}\n")
    return path


def probe(folder: Path, targets: Path, options: Sequence[str], sink: str) -> ProberRunCost:
    """Run the prober once; write the records to `rows.jsonl`, or to segments that are then removed."""
    argv = [*command(folder, targets), *options]
    with tempfile.TemporaryDirectory(dir=folder) as segments:
        if sink == "segments":
            argv += ["--segments", segments]
        used = process.run(argv, out=folder / "rows.jsonl", quiet=True)
    return ProberRunCost(used, json.loads((folder / "summary.json").read_text()))


def command(folder: Path, targets: Path) -> list[str]:
    """Return the prober's command line; the prober writes the summary to `summary.json`."""
    argv = [str(binaries.find("firstflight-prober")), "--targets", str(targets)]
    argv += ["--summary", str(folder / "summary.json"), "--allow-net", "127.0.0.0/8"]
    return [*argv, "--per-address-rate", "0", "--per-prefix-rate", "0"]
