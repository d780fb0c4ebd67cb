"""Writes quic_ack records: the acknowledgement behaviour of both sides of QUIC downloads."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from downloader.option_sets import SETS
from firstflight.system import binaries, children, files

KIND = "quic_ack"


def captures_of_quic(captures: Sequence[Path]) -> list[Path]:
    """Return the captures of QUIC sets: SET.pcap, and SET-2.pcap if the session was resumed."""
    names = {name for name, option_set in SETS.items() if option_set.is_quic}
    return [path for path in captures if path.name.removesuffix(".pcap").partition("-")[0] in names]


def write(
    captures: Sequence[Path],
    keys: Sequence[Path],
    out: Path,
    name_of: Callable[[Path], str],
    stamps: Mapping[str, object],
) -> None:
    """Write `out`, a record file of quic_ack, from captures and key logs. Write no file without captures.

    `name_of` returns a capture's name in rows. `stamps` holds the values of the columns run, vantage,
    repetition and tool_version. A damaged capture contributes its records before the damage. Raise
    FirstflightError if the dissector fails.
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
        _, stderr = children.wait_for_exit(process)
        written = Path(folder) / f"{KIND}.parquet"
        binaries.unreadable(process.returncode, stderr, written)
        written.replace(out)
