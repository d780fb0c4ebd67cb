"""The smallest settings file, with the files that it names, for tests that need a run or settings."""

from __future__ import annotations

from pathlib import Path

CONFIG = """
[campaign]
contact = "noc@example.org"
[targets]
source = "file"
file = "names.csv"
[as_data]
rib = "file"
files = ["rib.mrt"]
[[vantage]]
name = "here"
"""


# Overrides that enable a scan, which needs more than `enabled`.
SCAN = (
    "scan.enabled=true",
    "scan.networks=['10.0.0.0/24']",
    "scan.ownership=ours",
    "probe.allow_net=['10.0.0.0/8']",
)


def write(folder: Path) -> Path:
    """Write the settings and the files that they name into `folder`; return the settings file."""
    (folder / "names.csv").write_text("example.org\n")
    (folder / "rib.mrt").write_bytes(b"")
    path = folder / "c.toml"
    path.write_text(CONFIG)
    return path
