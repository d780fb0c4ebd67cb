"""inputs.json: which files of a run the centre offers to vantage points. Both ends hold it against this page.

The centre decides what is measured. It does not decide where a file lands at a vantage point, which programs
run there, or which of its files are read; so names, hashes, sizes and settings are checked before the first
byte is written.
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
from firstflight.run.run import CENTRE_STAGES
from firstflight.system import path_names
from firstflight.system.path_names import RelativeName, RunId, Sha256

SETTINGS, CONFIG = "settings.json", "config.toml"
FOLDERS = (*CENTRE_STAGES, LISTS)
MAX_FILES = 1000
# The largest is a routing table; a list of a million names has 25 MB.
MAX_FILE_BYTES = 4 << 30


class BadOffer(InputError):
    """What the centre offers does not hold together; nothing of it is used."""


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
                f"{name!a} is no input of a run: inputs are {SETTINGS}, {CONFIG} and files of "
                f"{', '.join(FOLDERS)}"
            )
        return name


class RunManifest(BaseModel):
    """What a vantage point reads of the run's manifest; the rest is kept as it is."""

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
                raise ValueError(f"{name!a} stands there twice")
        return listed


def may_be_offered(name: str) -> bool:
    """Whether a file of that name in a run's folder is an input: no record, no lock, no other's part."""
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
    """inputs.json of the run `run_id`, as it was given; BadOffer: one sentence, the first fault."""
    try:
        offer = Offer.model_validate(inputs)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the whole"
        what = str(fault["msg"]).removeprefix("Value error, ")
        raise BadOffer(
            f"the inputs of run {run_id} are refused, nothing was fetched: {where}: {what}"
        ) from error
    if offer.manifest.id != run_id:
        raise BadOffer(
            f"the inputs of run {run_id} are refused, nothing was fetched: they are of {offer.manifest.id}"
        )
    return offer


def check_settings(stored: Any, offer: Offer, folder: Path) -> dict[str, Any]:
    """Settings as the centre gave them, in which nothing names a program or a file of this place.

    `folder`: the run's, to which their paths are relative. BadOffer: one sentence.
    """
    refused = f"the settings of run {offer.manifest.id} are refused, nothing was sent"
    if not isinstance(stored, dict):
        raise BadOffer(f"{refused}: they are no table of sections")
    try:
        checked = settings.check(stored, SETTINGS, folder, check_files=False)
    except UsageError as error:
        raise BadOffer(f"{refused}: {' '.join(str(error).split())[:500]}") from error
    programs: list[object] = [checked.campaign.before_repetition]
    programs += [one for vantage in checked.vantage for one in (vantage.command, vantage.program)]
    if any(programs):
        raise BadOffer(f"{refused}: they name a program to run here, which no centre does")
    offered = {entry.name for entry in offer.files}
    for key in ("blocklist", "optout"):
        for name in stored.get("probe", {}).get(key, ()):
            if name not in offered or not name.startswith(f"{LISTS}/"):
                raise BadOffer(f"{refused}: probe.{key} names {name!a}, which is not among the inputs")
    return stored
