"""Campaigns in a lab for these tests: settings with short minutes, and the results."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from socket import IPPROTO_UDP
from typing import Any

from lab.system.link_log import Flow, Passage
from orchestration.runner import this_program
from tests.end_to_end.site import ROOT, LabFolders
from tests.engines import record_rows

CLOUDFLARE, FASTLY = 13335, 54113


def config(
    site: LabFolders, name: str, names: Sequence[str], vantages: Sequence[str], shards: int = 1
) -> Path:
    """Write a settings file for the lab: probe `names` once from each of `vantages`, with `shards` shards."""
    listed = site.folder / f"{name}.csv"
    listed.write_text("".join(f"{domain}\n" for domain in names))
    head = site.config().read_text(encoding="utf-8").partition("[[vantage]]")[0]
    targets = f'[targets]\nsource = "file"\nfile = "{listed}"\n\n'
    head = re.sub(r"\[targets\]\n.*?\n\n", lambda _: targets, head, flags=re.DOTALL)
    head = head.replace("repetitions = 2\n", "repetitions = 1\n")
    path = site.folder / f"{name}.toml"
    path.write_text(
        head
        + "".join(
            f'[[vantage]]\nname = "{v}"\ncommand = ["firstflight", "lab", "exec", "{v}"]\n'
            f'interface = "eth0"\nshards = {shards}\n'
            for v in vantages
        ),
        encoding="utf-8",
    )
    return path


def sets(**values: object) -> list[str]:
    """Return options of `campaign run`: `section__key=value` for each."""
    return [
        word
        for key, value in values.items()
        for word in ("--set", f"{key.replace('__', '.')}={json.dumps(value)}")
    ]


def rows(site: LabFolders, run: str, vantage: str, name: str = "quic_probe") -> list[dict[str, Any]]:
    """Return records of the first repetition's probe stage."""
    path = site.folder / "runs" / run / vantage / "1" / "probe" / f"{name}.parquet"
    found: list[dict[str, Any]] = record_rows.read(path)
    return found


def connections(site: LabFolders, capture: Path) -> list[dict[str, Any]]:
    """Return a capture's connections, from its start until now."""
    text = site.firstflight("dissect", str(capture), "--kind", "quic_connection", "--format", "jsonl")
    return [json.loads(line) for line in text.splitlines()]


def names_of(site: LabFolders, asns: tuple[int, ...]) -> list[str]:
    """Return names with an IPv4 address in the given ASes and a usual answer."""
    return sorted(
        {
            line["domain"]
            for line in site.lines("lab", "truth", "--format", "jsonl")
            if line["asn"] in asns and ":" not in line["ip"] and line["outcome"] in ("iack", "coalesced")
        }
    )


def left_ns(log: dict[Flow, list[Passage]], connection: dict[str, Any]) -> int:
    """Return the time of a connection's first packet at the link; `log`: packets by flow."""
    flow = (connection["client_ip"], connection["server_ip"], IPPROTO_UDP, connection["client_port"], 443)
    (packet,) = [passage for passage in log[flow] if passage.holds(connection["start_time_ns"])]
    return packet.arrived_ns


def start_campaign(site: LabFolders, file: Path, options: Sequence[str]) -> subprocess.Popen[str]:
    """Start a campaign with these settings; its output goes to pipes."""
    return subprocess.Popen(
        [*this_program(), "campaign", "run", "--config", str(file), *options],
        env=site.environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
