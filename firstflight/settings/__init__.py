"""A campaign's settings: one typed TOML file, validated once, stored with the run.

`load` reads a file, applies `--set section.key=value` overrides and returns `Settings`. Each fault is
reported as one sentence (file, key, fault). An unknown key is a fault. Relative paths are relative to the
file's folder and become absolute, so they refer to the same files in every stage's working directory.
"""

from firstflight.settings.read import check, fault_message, load
from firstflight.settings.sections import AsData, Backoff, Network, Section, Targets, Vantage, VantagePoint
from firstflight.settings.sending import Calibrate, Handshake, Probe, Resolve, SampledNames
from firstflight.settings.whole import Settings, optional_sections

__all__ = [
    "AsData",
    "Backoff",
    "Calibrate",
    "Handshake",
    "Network",
    "Probe",
    "Resolve",
    "SampledNames",
    "Section",
    "Settings",
    "Targets",
    "Vantage",
    "VantagePoint",
    "check",
    "fault_message",
    "load",
    "optional_sections",
]
