"""The sections in a campaign's settings file, each a TOML table: names, types, bounds and defaults.

sending.py has the sections of the stages that send.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from firstflight.settings.types import (
    DAY_S,
    YEAR_S,
    Address,
    Command,
    Contact,
    DateSetting,
    FileSetting,
    HostName,
    Interface,
    PathSetting,
    PortRange,
    Rate,
    StoreUrl,
    VantageName,
    latest_day,
)
from firstflight.shard import MOST

# The folder of CrUX's monthly global lists.
CRUX_URL = "https://raw.githubusercontent.com/zakird/crux-top-lists/main/data/global"


class Section(BaseModel):
    """Base class for sections: immutable; an unknown key, infinity or NaN is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Campaign(Section):
    """Name, contact and repetitions of the campaign."""

    # Name of the campaign, shown in lists of runs.
    name: str = Field(default="campaign", pattern=r"^[A-Za-z0-9_.-]+$")
    # How operators can reach you: one line of at most 500 bytes, sent in every CONNECTION_CLOSE. Required
    # unless probe.allow_net is set.
    contact: Contact = ""
    # Number of passes over the list.
    repetitions: int = Field(default=1, ge=1, le=1000)
    # Seconds between the starts of consecutive repetitions; at least a day on the Internet.
    repetition_interval_s: float = Field(default=DAY_S, ge=0, le=YEAR_S)
    # Command to run on this machine before each repetition. It may run twice. {repetition} is the
    # repetition's number.
    before_repetition: Command = ()
    # Whether the limits of [probe] per address and prefix apply to all vantage points together.
    shared_limits: bool = True
    # Maximum difference in seconds between the clocks of vantage points, including packet delays.
    clock_slack_s: float = Field(default=2.0, gt=0, le=60)


class Targets(Section):
    """Source of the names."""

    # Source of the names; `tranco+crux` joins both lists.
    source: Literal["tranco", "file", "crux", "tranco+crux"]
    # Tranco: the day of the list. Give either this or list_id.
    date: DateSetting | None = None
    # Tranco: the id of the list.
    list_id: str | None = None
    # CrUX: the month of the list, as YYYYMM.
    crux_month: str | None = Field(default=None, pattern=r"^20\d\d(0[1-9]|1[0-2])$")
    # CrUX: URL of the folder with the monthly files.
    crux_url: str = Field(default=CRUX_URL, pattern=r"^https://.+$")
    # Your own list: one name per line, or `rank,name`.
    file: FileSetting | None = None
    # Number of names to use; default: all. Required for Tranco. For CrUX, the largest rank bucket to use.
    top: int | None = Field(default=None, ge=1, le=1_000_000_000)
    # Folder that keeps lists from Tranco.
    cache_dir: PathSetting = Field(default=Path("var/cache/tranco"), validate_default=True)
    # Folder that keeps lists from CrUX.
    crux_cache_dir: PathSetting = Field(default=Path("var/cache/crux"), validate_default=True)

    @field_validator("crux_month")
    @classmethod
    def _is_not_in_future(cls, month: str | None, info: ValidationInfo) -> str | None:
        is_checked = (info.context or {}).get("check_files", True)
        if month is not None and is_checked and month > f"{latest_day():%Y%m}":
            raise ValueError(f"{month} is in the future: choose a month that is over")
        return month

    @model_validator(mode="after")
    def _source_is_named(self) -> Targets:
        if ("crux" in self.source) != (self.crux_month is not None):
            raise ValueError(
                '`crux_month` (YYYYMM) goes with source = "crux" or "tranco+crux", and only with them'
            )
        if self.source == "crux" and (self.file is not None or self.date or self.list_id):
            raise ValueError('source = "crux" needs `crux_month`, and no `date`, `list_id` or `file`')
        if self.source == "file" and (self.file is None or self.date or self.list_id):
            raise ValueError('source = "file" needs `file`, and neither `date` nor `list_id`')
        tranco = self.source in ("tranco", "tranco+crux")
        if tranco and (self.file is not None or bool(self.date) == bool(self.list_id)):
            raise ValueError(f'source = "{self.source}" needs either `date` or `list_id`, and no `file`')
        if tranco and self.top is None:
            raise ValueError(
                f'source = "{self.source}" needs `top`, the number of names to take from the list'
            )
        return self


class AsData(Section):
    """Routing table, and the map from AS to CDN."""

    # Source of the routing table.
    rib: Literal["routeviews", "file"]
    # RouteViews: the day of the table.
    date: DateSetting | None = None
    # MRT table dumps, for rib = "file"; they may be bz2 or gz.
    files: tuple[FileSetting, ...] = ()
    # Map from AS to CDN; default: the IMC 2024 paper's Table 5, which firstflight includes.
    cdn_map: FileSetting | None = None
    # Maps that extend cdn_map.
    cdn_map_extra: tuple[FileSetting, ...] = ()
    # Rules that identify a CDN by names, headers and certificates; default: the built-in rules.
    cdn_rules: FileSetting | None = None
    # Rules that precede cdn_rules.
    cdn_rules_extra: tuple[FileSetting, ...] = ()
    # `organisation`: a CDN also has all other ASes of its organisations, as in the ANRW 2023 paper.
    cdn_by: Literal["asn", "organisation"] = "asn"
    # Source of the ASes' organisations; default: unknown.
    as2org: Literal["caida", "file"] | None = None
    # CAIDA: use the newest file up to this day.
    as2org_date: DateSetting | None = None
    # A file in CAIDA's format, as-org2info.txt or .jsonl, optionally gzipped.
    as2org_file: FileSetting | None = None
    # Organisations of some ASes that replace those of this source, such as as2org+ (docs/inputs.md).
    as2org_plus: FileSetting | None = None
    # Folder that keeps routing tables.
    cache_dir: PathSetting = Field(default=Path("var/cache/routeviews"), validate_default=True)
    # Folder that keeps files of AS organisations.
    as2org_cache_dir: PathSetting = Field(default=Path("var/cache/as2org"), validate_default=True)

    @model_serializer(mode="wrap")
    def _without_defaults_of_rules(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit keys that are not set, so that earlier versions at vantage points can read the rest."""
        values: dict[str, Any] = dump(self)
        for name in ("cdn_rules", "cdn_rules_extra", "as2org_plus"):
            if not values.get(name):
                values.pop(name, None)
        if self.cdn_by == "asn":
            values.pop("cdn_by", None)
        return values

    @model_validator(mode="after")
    def _rib_is_named(self) -> AsData:
        if self.rib == "file" and (not self.files or self.date):
            raise ValueError('rib = "file" needs `files` (MRT table dumps, may be bz2 or gz), and no `date`')
        if self.rib == "routeviews" and (self.files or not self.date):
            raise ValueError('rib = "routeviews" needs `date`, and no `files`')
        expected = {None: (False, False), "caida": (True, False), "file": (False, True)}[self.as2org]
        if expected != (self.as2org_date is not None, self.as2org_file is not None):
            raise ValueError(
                'as2org = "caida" goes with `as2org_date`, as2org = "file" with `as2org_file`, '
                "and neither key is allowed otherwise"
            )
        if self.as2org is None and self.as2org_plus is not None:
            raise ValueError(
                '`as2org_plus` adds to a source of organisations: set as2org = "caida" or "file"'
            )
        if self.as2org is None and self.cdn_by == "organisation":
            raise ValueError('cdn_by = "organisation" needs organisations: set as2org = "caida" or "file"')
        return self


class Backoff(Section):
    """Conditions for pausing a network, and the control names that indicate its state."""

    # Whether networks are paused.
    enabled: bool = True
    # Control names, probed during the campaign.
    control: tuple[HostName, ...] = ()
    # Seconds between two probes to a control name.
    control_every_s: float = Field(default=60, ge=0.5, le=DAY_S)
    # Length in seconds of the baseline, from the first probe to an AS.
    baseline_s: float = Field(default=300, gt=0, le=DAY_S)
    # Length in seconds of the window that is compared with the baseline.
    window_s: float = Field(default=120, gt=0, le=DAY_S)
    # Minimum number of probes in baseline and window for a decision.
    least_probes: int = Field(default=30, ge=5)
    # Factor by which the share of timeouts or Retries must rise for a pause.
    factor: float = Field(default=2.0, gt=1)
    # Share of timeouts or Retries that must be reached for a pause.
    least_share: float = Field(default=0.1, gt=0, lt=1)
    # A pause's length in seconds; 0: until the end of the repetition.
    resume_after_s: float = Field(default=1800, ge=0, le=YEAR_S)


class Clock(Section):
    """Reference for a vantage point's clock."""

    # URL of a web server with an accurate Date header; default: the clock of the campaign's machine.
    reference: str | None = Field(default=None, pattern=r"^https?://.+$")
    # Offset in seconds that causes a warning.
    warn_s: float = Field(default=5.0, gt=0, le=DAY_S)


class Capture(Section):
    """The capture of the probe's traffic."""

    # Whether probes are captured.
    enabled: bool = True
    # Bytes captured of each packet.
    snaplen: int = Field(default=262_144, ge=256, le=262_144)
    # Size of the kernel's buffer in KiB (tcpdump -B).
    buffer_kib: int = Field(default=16_384, ge=256, le=2_097_151)
    # Milliseconds to wait before stopping the capture; the kernel may delay packets by up to a second.
    drain_ms: int = Field(default=1100, ge=0, le=10_000)
    # Whether the dissect stage trims captures after checking the rows.
    trim: bool = True


class Network(Section):
    """Network access for lists and tables."""

    # Certificates to trust when fetching lists and tables; default: the system's.
    ca_bundle: FileSetting | None = None


class Store(Section):
    """The store's URL: chdb:PATH or clickhouse://...; default: FIRSTFLIGHT_STORE, else chdb:./var/store."""

    # Address of the store; default: FIRSTFLIGHT_STORE, else the address in the file FIRSTFLIGHT_STORE_FILE,
    # else chdb:./var/store.
    url: StoreUrl | None = None


class Centre(Section):
    """The machine that fetches targets and AS data. `command` is prepended to these stages' commands."""

    # Command to prepend to the stages that run at the centre: targets, as_data, crawl.
    command: Command = ()


class VantagePoint(Section):
    """Common settings for a vantage point, in a campaign's settings and in a site's vantage_points.toml."""

    # Name of the vantage point. Names of files and folders of a run are reserved (load, logs, rules, stop,
    # ...).
    name: VantageName
    # City of the vantage point, for tables and pages.
    city: str = ""
    # Source addresses of probes; default: selected by routing. Rows hold the address used (src_ip).
    sources: tuple[Address, ...] = ()
    # Interface to capture on; default: the interface of the default route.
    interface: Interface | None = None
    # Number of processes that divide the names of a scan, each with at least two source ports.
    shards: int = Field(default=1, ge=1, le=MOST)

    @model_serializer(mode="wrap")
    def _without_one_shard(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `shards` if it is 1, so that vantage points with an earlier version can read the settings."""
        values: dict[str, Any] = dump(self)
        if self.shards == 1:
            values.pop("shards", None)
        return values


class Vantage(VantagePoint):
    """One vantage point in a campaign. `command` precedes every stage's command; empty = this machine."""

    # Command to prepend to every stage of this vantage point; default: it is this machine.
    command: Command = ()
    # Path of the firstflight program there; default: the program that runs the campaign.
    program: str | None = None
    # Overrides probe.rate.
    rate: Rate | None = None
    # Overrides probe.ports.
    ports: PortRange | None = None
