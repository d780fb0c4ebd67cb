"""inputs.json: the files of a run that the centre offers to vantage points. Both sides check it here.

The centre selects the measurements. It must not control where a vantage point writes a file, which programs
run there, or which local files are read. Therefore names, hashes, sizes and settings are checked before the
first byte is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from firstflight import settings
from firstflight.errors import InputError, UsageError
from firstflight.layout import LISTS
from firstflight.system import path_names
from firstflight.system.path_names import RelativeName, RunId, Sha256
from orchestration import stages
from orchestration.site import ceilings
from orchestration.site.ceilings import Ceilings
from orchestration.site.vantage_points import SiteVantagePoint

SETTINGS, CONFIG = "settings.json", "config.toml"
FOLDERS = (*stages.names(stages.once_per_run()), LISTS)
# Settings (section, key) that may name a file; it travels with the lists.
FILES = (("handshake", "roots"), ("crawl", "roots"), ("download", "roots"), ("download", "targets"))
MAX_FILES = 1000
# The largest file is a routing table; a list of a million names has 25 MB.
MAX_FILE_BYTES = 4 << 30
MAX_TOTAL_BYTES = 8 << 30
"""Maximum bytes of all files of a run."""


class BadOffer(InputError):
    """The centre's offer is invalid; no part is used."""


class OfferedFile(BaseModel):
    """One file: its name within the run, its size, its hash."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: RelativeName
    bytes: int = Field(ge=0, le=MAX_FILE_BYTES)
    sha256: Sha256

    @field_validator("name")
    @classmethod
    def _is_an_input(cls, name: str) -> str:
        if not may_be_offered(name):
            raise ValueError(
                f"{name!a} is not an input of a run: inputs are {SETTINGS}, {CONFIG} and files of "
                f"{', '.join(FOLDERS)}"
            )
        return name


class RunManifest(BaseModel):
    """The fields of the run's manifest that a vantage point reads; others are kept unchanged."""

    model_config = ConfigDict(extra="allow", strict=True)

    id: RunId
    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    tool_version: str
    started_at: str
    repetitions: int = Field(ge=1, le=1000)
    seed: int = Field(ge=0, lt=2**63)
    cid_key: str = Field(pattern=r"^[0-9a-f]{32}$")

    @field_validator("started_at")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        if datetime.fromisoformat(text).tzinfo is None:
            raise ValueError("has no time zone")
        return text


class Offer(BaseModel):
    """inputs.json as a whole."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    manifest: RunManifest
    files: tuple[OfferedFile, ...] = Field(max_length=MAX_FILES)

    @field_validator("files")
    @classmethod
    def _each_once(cls, listed: tuple[OfferedFile, ...]) -> tuple[OfferedFile, ...]:
        names = [entry.name for entry in listed]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name!a} is listed twice")
        total = sum(entry.bytes for entry in listed)
        if total > MAX_TOTAL_BYTES:
            raise ValueError(f"they have {total} bytes, and a run may have at most {MAX_TOTAL_BYTES}")
        return listed


def may_be_offered(name: str) -> bool:
    """Return whether a run's file with this name is an input: no lock, no partial file."""
    if name in (SETTINGS, CONFIG):
        return True
    try:
        folder, slash, file = path_names.relative(name).partition("/")
    except path_names.UnsafeName:
        return False
    return (
        bool(slash)
        and folder in FOLDERS
        and "/" not in file
        and file != "lock"
        and not file.endswith(".part")
    )


def check(inputs: Mapping[str, Any], run_id: str) -> Offer:
    """Check inputs.json of the run `run_id`; BadOffer names the first fault."""
    try:
        offer = Offer.model_validate(inputs)
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(part) for part in fault["loc"]) or "inputs.json"
        message = str(fault["msg"]).removeprefix("Value error, ")
        raise BadOffer(
            f"the inputs of run {run_id} are refused, nothing was fetched: {field}: {message}"
        ) from error
    if offer.manifest.id != run_id:
        raise BadOffer(
            f"the inputs of run {run_id} are refused, nothing was fetched: they belong to {offer.manifest.id}"
        )
    return offer


def check_settings(
    stored: Any, offer: Offer, folder: Path, point: SiteVantagePoint, most: Ceilings
) -> dict[str, Any]:
    """Check the centre's settings for the vantage point `point` and return them unchanged.

    BadOffer if they name a local program or file, or exceed the ceilings `most`. Their paths are relative to
    `folder`, the folder of the run.
    """
    refused = f"the settings of run {offer.manifest.id} are refused, nothing was sent"
    if not isinstance(stored, dict):
        raise BadOffer(f"{refused}: they are not a table of sections")
    try:
        checked = settings.check(stored, SETTINGS, folder, check_files=False)
    except UsageError as error:
        raise BadOffer(f"{refused}: {' '.join(str(error).split())[:500]}") from error
    programs: list[object] = [checked.campaign.before_repetition]
    programs += [program for vantage in checked.vantage for program in (vantage.command, vantage.program)]
    if any(programs):
        raise BadOffer(f"{refused}: they name a program to run here, which no centre may do")
    offered = {entry.name for entry in offer.files}
    paths = [
        (f"probe.{key}", name)
        for key in ("blocklist", "optout")
        for name in stored.get("probe", {}).get(key, ())
    ]
    paths += [
        (f"{section}.{key}", stored[section][key])
        for section, key in FILES
        if getattr(getattr(checked, section), key) is not None
    ]
    for setting, name in paths:
        if name not in offered or not name.startswith(f"{LISTS}/"):
            raise BadOffer(f"{refused}: {setting} names {name!a}, which is not among the inputs")
    above = list(ceilings.faults(checked, point, most))
    if above:
        raise BadOffer(f"{refused}: {'; '.join(above)} (docs/reference/ceilings.md)")
    return stored
