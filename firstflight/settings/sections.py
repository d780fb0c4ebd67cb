"""The sections of a campaign's settings file, each a TOML table: names, types, bounds and defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from firstflight.settings.types import (
    DAY_S,
    RESOLVER_RATE,
    YEAR_S,
    Address,
    Command,
    Contact,
    DateSetting,
    FileSetting,
    HostName,
    Interface,
    LabNetwork,
    Limit,
    PathSetting,
    PortRange,
    Rate,
    StoreUrl,
    VantageName,
    WeightedResolver,
    is_ours,
)
from firstflight.shard import MOST

# The folder of CrUX's monthly global lists.
CRUX_URL = "https://raw.githubusercontent.com/zakird/crux-top-lists/main/data/global"


class Section(BaseModel):
    """Base of all sections: immutable; an unknown key, infinity or NaN is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Campaign(Section):
    """Name, contact and repetitions of the campaign."""

    name: str = Field(default="campaign", pattern=r"^[A-Za-z0-9_.-]+$")
    # Sent in every CONNECTION_CLOSE, so that an operator can ask to stop the probes.
    contact: Contact = ""
    repetitions: int = Field(default=1, ge=1, le=1000)
    # From the start of one repetition to the start of the next; in the field a day or more (definitions.md).
    repetition_interval_s: float = Field(default=DAY_S, ge=0, le=YEAR_S)
    # Run on this machine before each repetition; {repetition} is replaced by its number.
    before_repetition: Command = ()
    # The limits of [probe] per address and prefix hold for all vantage points together
    # (firstflight/egress/shared_limits.py).
    shared_limits: bool = True
    # Tolerance for clock differences between vantage points and for packet delay.
    clock_slack_s: float = Field(default=2.0, gt=0, le=60)


class Targets(Section):
    """Source of the names."""

    source: Literal["tranco", "file", "crux", "tranco+crux"]
    # Tranco: the list of a day, or a list by its id.
    date: DateSetting | None = None
    list_id: str | None = None
    # CrUX: the list of a month as YYYYMM, and the folder of the monthly files.
    crux_month: str | None = Field(default=None, pattern=r"^20\d\d(0[1-9]|1[0-2])$")
    crux_url: str = Field(default=CRUX_URL, pattern=r"^https://.+$")
    # The user's own list: a name per line, or `rank,name`.
    file: FileSetting | None = None
    top: int | None = Field(default=None, ge=1, le=1_000_000_000)
    cache_dir: PathSetting = Field(default=Path("var/cache/tranco"), validate_default=True)
    crux_cache_dir: PathSetting = Field(default=Path("var/cache/crux"), validate_default=True)

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

    rib: Literal["routeviews", "file"]
    date: DateSetting | None = None
    files: tuple[FileSetting, ...] = ()
    # None = the paper's Table 5, which firstflight includes.
    cdn_map: FileSetting | None = None
    cdn_map_extra: tuple[FileSetting, ...] = ()
    # Rules for names, headers and certificates; None = firstflight's own.
    cdn_rules: FileSetting | None = None
    cdn_rules_extra: tuple[FileSetting, ...] = ()
    # AS organisations: CAIDA's newest file of that day or before, or a file in its format. None = unknown.
    as2org: Literal["caida", "file"] | None = None
    as2org_date: DateSetting | None = None
    as2org_file: FileSetting | None = None
    cache_dir: PathSetting = Field(default=Path("var/cache/routeviews"), validate_default=True)
    as2org_cache_dir: PathSetting = Field(default=Path("var/cache/as2org"), validate_default=True)

    @model_serializer(mode="wrap")
    def _without_defaults_of_rules(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave rules out that nobody set: a vantage point of an earlier version reads the rest."""
        values: dict[str, Any] = dump(self)
        for name in ("cdn_rules", "cdn_rules_extra"):
            if not values.get(name):
                values.pop(name, None)
        return values

    @model_validator(mode="after")
    def _rib_is_named(self) -> AsData:
        if self.rib == "file" and (not self.files or self.date):
            raise ValueError('rib = "file" needs `files` (MRT table dumps, may be bz2 or gz), and no `date`')
        if self.rib == "routeviews" and (self.files or not self.date):
            raise ValueError('rib = "routeviews" needs `date`, and no `files`')
        wanted = {None: (False, False), "caida": (True, False), "file": (False, True)}[self.as2org]
        if wanted != (self.as2org_date is not None, self.as2org_file is not None):
            raise ValueError(
                'as2org = "caida" goes with `as2org_date`, as2org = "file" with `as2org_file`, '
                "and neither key is allowed otherwise"
            )
        return self


class Resolve(Section):
    """Resolver and limits of DNS queries."""

    # None = the first name server in the vantage point's /etc/resolv.conf.
    resolver: Address | None = None
    port: int = Field(default=53, ge=1, le=65535)
    # Several that share the queries: ADDRESS or ADDRESS#PORT, with ,weight=N for a larger share.
    resolvers: tuple[WeightedResolver, ...] = ()
    concurrency: int = Field(default=64, ge=1, le=10_000)
    # Queries per second to each resolver; 0 = no limit, None = RESOLVER_RATE to one that is not our own.
    rate: Limit | None = None
    timeout_s: float = Field(default=3.0, gt=0, le=300)  # per attempt
    attempts: int = Field(default=3, ge=1, le=10)

    @model_validator(mode="after")
    def _one_way_to_name_them(self) -> Resolve:
        if self.resolver is not None and self.resolvers:
            raise ValueError("resolver and resolvers are both given: name all of them in resolvers")
        return self

    def rates(self) -> tuple[float | None, ...]:
        """Return the most queries per second to each resolver, by the engine's rule; None = no limit.

        The one of /etc/resolv.conf, which another machine may have, counts as one of others.
        """
        addresses = self.resolvers or (self.resolver,)
        if self.rate is not None:
            return (self.rate or None,) * len(addresses)
        return tuple(
            None if address and is_ours(re.split("[#,]", address)[0]) else RESOLVER_RATE
            for address in addresses
        )


InitialSize = Annotated[int, Field(ge=1200, le=1472)]


class Probe(Section):
    """Probing of servers; the options of `firstflight probe`."""

    rate: Rate = 500  # new probes per second and vantage point
    per_address_rate: Limit = 1  # 0 = no limit
    per_prefix_rate: Limit = 10  # /24 and /48; 0 = no limit
    timeout_s: float = Field(default=3.0, gt=0, le=60)  # the answer window
    settle_ms: int = Field(default=100, ge=0, le=10_000)
    attempts: int = Field(default=2, ge=1, le=5)
    # None = 1252 bytes on IPv4, 1232 on IPv6. RFC 9000 14.1: at least 1200.
    initial_size: InitialSize | None = None
    # Instead of it, a sweep: repetition N probes with the Nth, from the first again after the last.
    initial_sizes: tuple[InitialSize, ...] = Field(default=(), max_length=32)
    # Seconds in which an answered server is sent nothing and its retransmissions are recorded; None = no.
    listen_s: float | None = Field(default=None, gt=0, le=60)
    # ECN mark of all datagrams, None = no mark; QUIC version of the Initials.
    ecn: Literal["ect0", "ect1"] | None = None
    version: Literal["1", "reserved"] = "1"
    port: int = Field(default=443, ge=1, le=65535)
    all_addresses: bool = False
    families: tuple[Literal[4, 6], ...] = (4, 6)
    # Source ports, bound while the probe runs; above Linux's default ephemeral range.
    ports: PortRange = "61000-61063"
    seed: int | None = Field(default=None, ge=0, lt=2**63)  # None = random per run
    blocklist: tuple[FileSetting, ...] = ()
    optout: tuple[FileSetting, ...] = ()
    allow_net: tuple[LabNetwork, ...] = ()

    @model_validator(mode="after")
    def _has_one_size(self) -> Probe:
        if self.initial_size is not None and self.initial_sizes:
            raise ValueError("`initial_size` is for all repetitions and `initial_sizes` one each: give one")
        return self

    def size_of(self, repetition: int) -> int | None:
        """Return the UDP payload of Initials in a repetition (from 1); None: the default of each family."""
        if not self.initial_sizes:
            return self.initial_size
        return self.initial_sizes[(repetition - 1) % len(self.initial_sizes)]


# Of an application protocol (RFC 7301 3.1); several are joined by commas.
ProtocolName = Annotated[str, Field(pattern=r"^[!-+\--~]{1,32}$")]


class Drawn(Section):
    """A share of the names that a stage contacts beside the probes."""

    enabled: bool = False
    # Of the names, drawn by a hash of the run's seed and the name: the same ones in every repetition.
    share: float = Field(default=0.01, ge=0, le=1)
    cdn: tuple[str, ...] = ()  # only addresses of these CDNs; empty = of all
    limit: int | None = Field(default=None, ge=1)  # most names
    rate: Rate = 50  # new connections per second and vantage point


class Handshake(Drawn):
    """Handshakes completed with a share of the names after the probes; what is not here is as in [probe]."""

    timeout_s: float = Field(default=10.0, gt=0, le=60)  # of a whole connection
    verify: Literal["none", "signature", "chain"] = "signature"
    roots: FileSetting | None = None  # PEM, for `chain`; None = Mozilla's
    key_share: Literal["x25519", "x25519mlkem768"] = "x25519"
    # QUIC versions to offer, the one of the first packet first.
    version: Literal["1", "2", "1,2", "2,1"] = "1"
    ech: Literal["none", "grease"] = "none"  # of Encrypted ClientHello
    sni: Literal["target", "none"] = "target"  # whether the ClientHello names the server
    # Application protocols to offer; the request is sent if the server chooses h3.
    alpn: tuple[ProtocolName, ...] = Field(default=("h3",), min_length=1)
    path: str = Field(default="/", pattern=r"^/[!-~]{0,255}$")  # of the request
    second: bool = False  # a second connection with each target, by ticket and token of the first

    @model_validator(mode="after")
    def _uses_its_roots(self) -> Handshake:
        if self.roots is not None and self.verify != "chain":
            raise ValueError('`roots` is for verify = "chain": add that, or leave `roots` away')
        return self


class Calibrate(Drawn):
    """Pairs of a probe and a handshake with a share of the names; the rest is as in their sections."""

    # Pairs sent together: a smaller block brings the sides of a pair closer, and all takes longer.
    block: int = Field(default=50, ge=2, le=10_000)
    gap_s: float = Field(default=1.0, ge=0, le=3600)  # from the end of one engine to the start of the next


class Crawl(Section):
    """The crawl for files to download, once per run at the centre; what is not here is as in [probe]."""

    enabled: bool = False
    limit: int | None = Field(default=None, ge=1)  # most names, the first of the list
    rate: Rate = 20  # requests per second
    per_address_rate: Limit = 1  # requests per second to one address; 0 = no limit
    concurrency: int = Field(default=64, ge=1, le=10_000)  # names at a time
    max_requests: int = Field(default=200, ge=1, le=10_000)  # per name
    roots: FileSetting | None = None  # certificates to trust, PEM; None = Mozilla's


class TcpOptions(Drawn):
    """The survey of TCP options; what is not here is as in [probe]."""

    share: float = Field(default=1.0, ge=0, le=1)
    rate: Rate = 100  # new connections per second and vantage point, those that ask again included
    timeout_s: float = Field(default=10.0, gt=0, le=60)  # from the first SYN of a connection to its end
    attempts: int = Field(default=3, ge=1, le=10)  # connections to a target: asked again after a lost SYN
    port: int = Field(default=443, ge=1, le=65535)


class Download(Section):
    """Downloads under TCP option sets and over QUIC; what is not here is as in [probe]."""

    enabled: bool = False
    sets: tuple[str, ...] = Field(default=("bl", "ws14", "all14", "quiche"), min_length=1)
    # CSV with header url,ip; None = the files that the crawl stage found.
    targets: FileSetting | None = None
    # Files to draw of each CDN, and of all other networks; None = all (the ANRW paper: 200 and 1,000).
    per_cdn: int | None = Field(default=200, ge=1)
    others: int | None = Field(default=1000, ge=1)
    timeout_s: float = Field(default=45.0, ge=1, le=600)
    max_bytes: int = Field(default=10_485_760, ge=1, le=2**30)  # of a body
    pause_s: float = Field(default=1.0, ge=0, le=3600)  # between two downloads
    # Between two runs (warm-up and all sets) of a name and address, over vantage points that share limits.
    run_pause_s: float = Field(default=3600.0, gt=0, le=DAY_S)
    fixed_order: bool = False  # sets in the order given, as the paper does, not as drawn
    roots: FileSetting | None = None  # certificates to trust, PEM; None = Mozilla's


class Watch(Section):
    """Names probed repeatedly at set times: those of the target list, and `owned` ones more often."""

    period_s: float = Field(default=3600, ge=1, le=DAY_S)  # duration of one stage
    # Interval between probes of a name: a minute; shorter only in a lab.
    minute_s: float = Field(default=60, ge=0.5, le=3600)
    owned: tuple[HostName, ...] = ()
    owned_per_minute: int = Field(default=60, ge=1, le=600)
    # Who owns these names and agreed: only such names may be probed above the limit per address.
    ownership: str = ""
    families: tuple[Literal[4, 6], ...] = (4,)
    grace_ms: int = Field(default=250, ge=1, le=60_000)  # a probe that cannot be sent by then is skipped
    resolve_every_s: float = Field(default=300, ge=1, le=DAY_S)
    # Skip slots while another watch runs at the same vantage point: limits hold for both together.
    gives_way: bool = False

    @model_validator(mode="after")
    def _is_owned(self) -> Watch:
        if self.owned and not self.ownership.strip():
            raise ValueError(
                "`owned` needs `ownership`: say who owns these names and agreed to have them probed so often"
            )
        return self


class Backoff(Section):
    """When probing of a network is paused, and the control names that indicate its state."""

    enabled: bool = True
    control: tuple[HostName, ...] = ()  # probed beside the campaign
    control_every_s: float = Field(default=60, ge=0.5, le=DAY_S)
    baseline_s: float = Field(default=300, gt=0, le=DAY_S)  # an AS's first minutes
    window_s: float = Field(default=120, gt=0, le=DAY_S)  # compared with them
    least_probes: int = Field(default=30, ge=5)  # minimum in either, for a decision
    factor: float = Field(default=2.0, gt=1)
    least_share: float = Field(default=0.1, gt=0, lt=1)  # a lower share never causes a pause
    resume_after_s: float = Field(default=1800, ge=0, le=YEAR_S)  # 0 = never in this repetition


class Clock(Section):
    """Reference for a vantage point's clock."""

    # Any page of a server with a correct clock (its Date header); None = the campaign's own clock.
    reference: str | None = Field(default=None, pattern=r"^https?://.+$")
    warn_s: float = Field(default=5.0, gt=0, le=DAY_S)


class Capture(Section):
    """The capture of the probe's traffic."""

    enabled: bool = True
    snaplen: int = Field(default=262_144, ge=256, le=262_144)  # bytes
    buffer_kib: int = Field(default=16_384, ge=256, le=2_097_151)  # tcpdump -B
    # Delay between the prober's end and the stop: the kernel may delay packets by a second (capture.py).
    drain_ms: int = Field(default=1100, ge=0, le=10_000)
    # Whether the dissect stage removes from captures what nobody can open, and padding (dissector/trim.py).
    trim: bool = True


class Network(Section):
    """Network access for lists and tables."""

    # Certificates to trust instead of the system's own (requests' `verify`).
    ca_bundle: FileSetting | None = None


class Store(Section):
    """The store's URL: chdb:PATH or clickhouse://...; None = FIRSTFLIGHT_STORE, else chdb:./var/store."""

    url: StoreUrl | None = None


class Centre(Section):
    """Where targets and AS data are fetched: `command` is put before these stages' commands."""

    command: Command = ()


class VantagePoint(Section):
    """Common settings of a vantage point, in a campaign's settings and in a site's vantage_points.toml."""

    name: VantageName
    city: str = ""
    # Source addresses of probes; empty = as routing selects. Rows hold the one used (src_ip).
    sources: tuple[Address, ...] = ()
    # Interface to capture on; None = the one of the default route.
    interface: Interface | None = None
    # Processes among which the names of a scan are divided; together they keep the limits of one.
    shards: int = Field(default=1, ge=1, le=MOST)

    @model_serializer(mode="wrap")
    def _without_one_shard(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave `shards` out if there is one: the settings of a run are then those of earlier versions."""
        values: dict[str, Any] = dump(self)
        if self.shards == 1:
            values.pop("shards", None)
        return values


class Vantage(VantagePoint):
    """One vantage point of a campaign. `command` precedes every stage's command; empty = this machine."""

    command: Command = ()
    # Path of the firstflight program there; None = the one that runs the campaign.
    program: str | None = None
    rate: Rate | None = None
    ports: PortRange | None = None
