"""The sections in a campaign's settings file, each a TOML table: names, types, bounds and defaults."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Literal

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
    CHECK_ATTEMPTS,
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
    ScanNetwork,
    StoreUrl,
    VantageName,
    WeightedResolver,
    is_ours,
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
        is_given = (info.context or {}).get("check_files", True)
        if month is not None and is_given and month > f"{latest_day():%Y%m}":
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


class Resolve(Section):
    """Resolver and limits of DNS queries."""

    # Resolver to ask; default: the first name server in the vantage point's /etc/resolv.conf.
    resolver: Address | None = None
    # Port of the resolver.
    port: int = Field(default=53, ge=1, le=65535)
    # Several resolvers that share the queries, instead of resolver and port: ADDRESS or ADDRESS#PORT, with
    # ,weight=N for a larger share.
    resolvers: tuple[WeightedResolver, ...] = ()
    # Maximum number of outstanding queries.
    concurrency: int = Field(default=64, ge=1, le=10_000)
    # Queries per second to each resolver; default: no limit for a named resolver in loopback, private or lab
    # networks, 200 for all others.
    rate: Limit | None = None
    # Seconds to wait for an answer, per attempt.
    timeout_s: float = Field(default=3.0, gt=0, le=300)
    # Attempts per query.
    attempts: int = Field(default=3, ge=1, le=10)

    @model_validator(mode="after")
    def _resolver_is_named_once(self) -> Resolve:
        if self.resolver is not None and self.resolvers:
            raise ValueError("resolver and resolvers are both given: name all of them in resolvers")
        return self

    def rates(self) -> tuple[float | None, ...]:
        """Return the maximum queries per second to each resolver, by the engine's rule; `None`: no limit.

        A resolver from /etc/resolv.conf counts as another operator's: the vantage point's file may differ.
        """
        addresses = self.resolvers or (self.resolver,)
        if self.rate is not None:
            return (self.rate or None,) * len(addresses)
        return tuple(
            None if address and is_ours(re.split("[#,]", address)[0]) else RESOLVER_RATE
            for address in addresses
        )

    def longest_s(self) -> float:
        """Return the maximum seconds to resolve one name, including the check that a resolver answers."""
        return (CHECK_ATTEMPTS + self.attempts) * self.timeout_s


class Scan(Section):
    """Networks that ZMap scans for QUIC servers; [probe] has the port, the source ports and the lists."""

    # Whether to scan the networks before the probes, and to contact the addresses that answer without a name.
    enabled: bool = False
    # IPv4 networks to scan, of /8 or smaller; you must own them or have permission.
    networks: tuple[ScanNetwork, ...] = ()
    # Who owns these networks, or permitted the scan.
    ownership: str = ""
    # Datagrams per second and vantage point; fewer if probe.per_prefix_rate requires it.
    rate: float = Field(default=20, ge=1, le=10_000)
    # Seconds to wait for late answers.
    cooldown_s: int = Field(default=8, ge=1, le=600)

    @model_validator(mode="after")
    def _is_owned(self) -> Scan:
        if self.enabled and not self.networks:
            raise ValueError("`enabled` needs `networks`: name the networks that you own or may scan")
        if self.enabled and not self.ownership.strip():
            raise ValueError(
                "`networks` needs `ownership`: say who owns these networks, or permitted the scan"
            )
        return self

    @property
    def addresses(self) -> int:
        """The number of addresses to scan; 0 if the scan is not enabled."""
        networks = map(ipaddress.IPv4Network, self.networks if self.enabled else ())
        return sum(network.num_addresses for network in ipaddress.collapse_addresses(networks))


InitialSize = Annotated[int, Field(ge=1200, le=1472)]


class Probe(Section):
    """Probing of servers; the options of `firstflight probe`."""

    # New probes per second and vantage point.
    rate: Rate = 500
    # New probes per second to an address.
    per_address_rate: Limit = 1
    # New probes per second to a /24 or /48.
    per_prefix_rate: Limit = 10
    # Answer window in seconds.
    timeout_s: float = Field(default=3.0, gt=0, le=60)
    # Milliseconds to wait after the ServerHello.
    settle_ms: int = Field(default=100, ge=0, le=10_000)
    # Maximum number of connections per probe.
    attempts: int = Field(default=2, ge=1, le=5)
    # UDP payload of the Initial in bytes (RFC 9000, 14.1: at least 1200); default: 1252 on IPv4, 1232 on
    # IPv6.
    initial_size: InitialSize | None = None
    # Several sizes: repetition N uses the Nth size, and starts again at the end of the list. Use a separate
    # run. Watches use the default.
    initial_sizes: tuple[InitialSize, ...] = Field(default=(), max_length=32)
    # Seconds to send nothing after an answer and record the server's retransmissions; default: close
    # immediately. For at most 1,000 addresses; not for watches and pairs.
    listen_s: float | None = Field(default=None, gt=0, le=60)
    # ECN mark of all datagrams; default: no mark. Not for watches.
    ecn: Literal["ect0", "ect1"] | None = None
    # QUIC version of the Initials; `reserved` requests Version Negotiation, in a separate run. Not for
    # watches.
    version: Literal["1", "reserved"] = "1"
    # Destination port.
    port: int = Field(default=443, ge=1, le=65535)
    # Whether to probe all addresses for a name instead of the first.
    all_addresses: bool = False
    # Address families to probe.
    families: tuple[Literal[4, 6], ...] = Field(default=(4, 6), min_length=1, max_length=2)
    # `h3`: contact only names whose HTTPS record promises HTTP/3, also for handshakes and pairs. Not for
    # watches.
    https_record: Literal["any", "h3"] = "any"
    # Source ports, bound while the prober runs; the default is above Linux's ephemeral range.
    ports: PortRange = "61000-61063"
    # Seed of the random order; default: random, recorded in the manifest.
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    # Lists of networks that are never contacted, in ZMap's format.
    blocklist: tuple[FileSetting, ...] = ()
    # Lists of names and networks whose owners opted out.
    optout: tuple[FileSetting, ...] = ()
    # Lab networks that may be probed without a contact.
    allow_net: tuple[LabNetwork, ...] = ()

    @model_validator(mode="after")
    def _has_one_size(self) -> Probe:
        if self.initial_size is not None and self.initial_sizes:
            raise ValueError(
                "`initial_size` and `initial_sizes` exclude each other: give only one of these keys"
            )
        return self

    def size_of(self, repetition: int) -> int | None:
        """Return the UDP payload of Initials in a repetition (from 1); `None`: each family's default."""
        if not self.initial_sizes:
            return self.initial_size
        return self.initial_sizes[(repetition - 1) % len(self.initial_sizes)]


# The name of an application protocol (RFC 7301 3.1). Commas join several names.
ProtocolName = Annotated[str, Field(pattern=r"^[!-+\--~]{1,32}$")]


class SampledNames(Section):
    """A share of the names that a stage contacts in addition to the probes."""

    # Whether the stage runs.
    enabled: bool = False
    # Share of the names, sampled by a hash of the run's seed and the name: the same in every repetition.
    share: float = Field(default=0.01, ge=0, le=1)
    # CDNs to restrict the stage to; default: all.
    cdn: tuple[str, ...] = ()
    # Maximum number of names; default: no limit.
    limit: int | None = Field(default=None, ge=1)
    # New connections per second and vantage point.
    rate: Rate = 50


class Handshake(SampledNames):
    """Handshakes completed with a share of the names after the probes; [probe] has the other settings."""

    # Seconds for a whole connection.
    timeout_s: float = Field(default=10.0, gt=0, le=60)
    # What to check and record of certificates.
    verify: Literal["none", "signature", "chain"] = "signature"
    # PEM file with the roots, for verify = "chain"; default: Mozilla's.
    roots: FileSetting | None = None
    # Group of the key share.
    key_share: Literal["x25519", "x25519mlkem768"] = "x25519"
    # QUIC versions to offer; the first packet uses the first version.
    version: Literal["1", "2", "1,2", "2,1"] = "1"
    # `grease` sends a GREASE extension for Encrypted ClientHello.
    ech: Literal["none", "grease"] = "none"
    # `none` sends no name in the ClientHello.
    sni: Literal["target", "none"] = "target"
    # Application protocols to offer; the request is sent if the server chooses h3.
    alpn: tuple[ProtocolName, ...] = Field(default=("h3",), min_length=1)
    # Path of the HEAD request.
    path: str = Field(default="/", pattern=r"^/[!-~]{0,255}$")
    # Whether to open a second connection to each target, with the ticket and token from the first.
    second: bool = False

    @model_validator(mode="after")
    def _uses_its_roots(self) -> Handshake:
        if self.roots is not None and self.verify != "chain":
            raise ValueError('`roots` requires verify = "chain": add it, or remove `roots`')
        return self


class Calibrate(SampledNames):
    """Pairs of a probe and a handshake with a share of the names; their sections have the other settings."""

    # Pairs per block. A smaller block brings the two sides of a pair closer together, and takes longer in
    # total.
    block: int = Field(default=50, ge=2, le=10_000)
    # Minimum seconds between two steps of a block.
    gap_s: float = Field(default=1.0, ge=0, le=3600)


class Crawl(Section):
    """The crawl for files to download, once per run at the centre; [probe] has the other settings."""

    # Whether to crawl the web sites of the list for files to download, once per run, from the centre.
    enabled: bool = False
    # Maximum number of names, from the start of the list; default: all.
    limit: int | None = Field(default=None, ge=1)
    # Requests per second in total.
    rate: Rate = 20
    # Requests per second to an address.
    per_address_rate: Limit = 1
    # Names crawled concurrently.
    concurrency: int = Field(default=64, ge=1, le=10_000)
    # Maximum number of requests per name.
    max_requests: int = Field(default=200, ge=1, le=10_000)
    # PEM file with the certificates to trust; default: Mozilla's.
    roots: FileSetting | None = None


class TcpOptions(SampledNames):
    """The survey of TCP options; [probe] has the other settings."""

    # Share of the names, sampled as for handshakes.
    share: float = Field(default=1.0, ge=0, le=1)
    # New connections per second and vantage point, including retries.
    rate: Rate = 100
    # Seconds from a connection's first SYN to its end.
    timeout_s: float = Field(default=10.0, gt=0, le=60)
    # Maximum number of connections to a target; a lost SYN causes a retry.
    attempts: int = Field(default=3, ge=1, le=10)
    # Destination port.
    port: int = Field(default=443, ge=1, le=65535)


class Download(Section):
    """Downloads under TCP option sets and over QUIC; [probe] has the other settings."""

    # Whether to download files under option sets at each vantage point.
    enabled: bool = False
    # Option sets in addition to the warm-up.
    sets: tuple[str, ...] = Field(default=("bl", "ws14", "all14", "quiche"), min_length=1)
    # CSV with header `url,ip`; default: the files that the crawl found, each from the first IPv4 address that
    # the vantage point resolves.
    targets: FileSetting | None = None
    # Whether to resolve a name again just before its downloads, as the paper does; not with `targets`.
    resolve_again: bool = True
    # How files are drawn. "names": among all files. "survey", as in the paper: a TCP and a QUIC target set of
    # names that accept all three TCP options in the run's survey ([tcp_options]).
    draw: Literal["names", "survey"] = "names"
    # Number of files in the QUIC target set (558 in the paper); a large number means no limit.
    quic: int | None = Field(default=558, ge=1)
    # Number of files sampled per CDN (200 in the ANRW 2023 paper); a large number means no limit.
    per_cdn: int | None = Field(default=200, ge=1)
    # Number of files sampled from all other networks (1,000 in the paper); a large number means no limit.
    others: int | None = Field(default=1000, ge=1)
    # Maximum seconds per download.
    timeout_s: float = Field(default=45.0, ge=1, le=600)
    # Maximum bytes in a body.
    max_bytes: int = Field(default=10_485_760, ge=1, le=2**30)
    # Seconds between two downloads.
    pause_s: float = Field(default=1.0, ge=0, le=3600)
    # Minimum seconds between two rounds of downloads (warm-up and all sets) from a name and address, for all
    # vantage points that share limits; at most campaign.repetition_interval_s.
    run_pause_s: float = Field(default=3600.0, gt=0, le=DAY_S)
    # Whether to keep the given order of sets, as the paper does, instead of a random one.
    fixed_order: bool = False
    # PEM file with the certificates to trust; default: Mozilla's.
    roots: FileSetting | None = None

    @property
    def resolves_again(self) -> bool:
        """Whether names are resolved again. A list of files states its addresses."""
        return self.resolve_again and self.targets is None


class Watch(Section):
    """Names of the target list, probed repeatedly at set times; `owned` names more often."""

    # A period's length in seconds; one stage measures one period.
    period_s: float = Field(default=3600, ge=1, le=DAY_S)
    # Seconds between two probes to a name; shorter than 60 only in a lab.
    minute_s: float = Field(default=60, ge=0.5, le=3600)
    # Names to probe more often than the limit per address allows; their owner must agree.
    owned: tuple[HostName, ...] = ()
    # Probes per minute of each owned name.
    owned_per_minute: int = Field(default=60, ge=1, le=600)
    # Who owns these names and agreed.
    ownership: str = ""
    # Address families to probe.
    families: tuple[Literal[4, 6], ...] = Field(default=(4,), min_length=1, max_length=2)
    # Maximum lateness of a probe in milliseconds; later probes are skipped.
    grace_ms: int = Field(default=250, ge=1, le=60_000)
    # Seconds between two resolutions of a name.
    resolve_every_s: float = Field(default=300, ge=1, le=DAY_S)
    # "low": skip planned probes while another watch is active at the same vantage point.
    precedence: Literal["normal", "low"] = "normal"

    @model_validator(mode="after")
    def _is_owned(self) -> Watch:
        if self.owned and not self.ownership.strip():
            raise ValueError(
                "`owned` needs `ownership`: say who owns these names and agreed to have them probed so often"
            )
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
