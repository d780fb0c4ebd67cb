"""How both sides of downloads over QUIC acknowledged (record kind quic_ack), from their captures and keys."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from downloader.option_sets import SETS
from firstflight.system import binaries, children, files

KIND = "quic_ack"


def captures_of_quic(captures: Sequence[Path]) -> list[Path]:
    """Return those of a session's captures that are of QUIC sets: SET.pcap, SET-2.pcap if resumed."""
    names = {name for name, one in SETS.items() if one.protocol == "udp"}
    return [path for path in captures if path.name.removesuffix(".pcap").partition("-")[0] in names]


def write(
    captures: Sequence[Path],
    keys: Sequence[Path],
    out: Path,
    name_of: Callable[[Path], str],
    stamps: Mapping[str, object],
) -> None:
    """Write `out`, a record file of quic_ack, from captures; without captures nothing.

    `name_of` says what rows call a capture; `stamps`: values of the columns run, vantage, repetition and
    tool_version. What a damaged capture holds up to there is in it. FirstflightError if the dissector fails.
    """
    if not captures:
        return
    with (
        files.explain_os_errors(out),
        tempfile.TemporaryDirectory(dir=out.parent, prefix="native.") as folder,
    ):
        argv = [str(binaries.find("firstflight-dissect")), *map(str, captures)]
        argv += [word for path in keys for word in ("--keys", str(path))]
        argv += ["--kind", KIND, "--format", "parquet", "--out", folder]
        argv += [word for path in captures for word in ("--source-name", name_of(path))]
        argv += [word for name, value in stamps.items() for word in ("--stamp", f"{name}={value}")]
        process = children.start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, stderr = children.finished(process)
        written = Path(folder) / f"{KIND}.parquet"
        binaries.unreadable(process.returncode, stderr, written)
        written.replace(out)
