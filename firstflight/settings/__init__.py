"""The settings of a campaign: one typed TOML file, checked once, stored with the run.

`load` reads a file, applies `--set section.key=value` overrides and returns `Settings`; every fault is one
sentence (file, key, what is wrong). An unknown key is a fault. Relative paths are relative to the file's
folder and are made absolute, so that they mean the same files in every stage's working directory.
"""

from firstflight.settings.read import check, fault_message, load
from firstflight.settings.sections import (
    AsData,
    Backoff,
    Calibrate,
    Drawn,
    Handshake,
    Network,
    Resolve,
    Section,
    Targets,
    Vantage,
    VantagePoint,
)
from firstflight.settings.whole import Settings

__all__ = [
    "AsData",
    "Backoff",
    "Calibrate",
    "Drawn",
    "Handshake",
    "Network",
    "Resolve",
    "Section",
    "Settings",
    "Targets",
    "Vantage",
    "VantagePoint",
    "check",
    "fault_message",
    "load",
]
