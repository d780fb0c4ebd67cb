"""The sections of the stages that send, each a TOML table, like the other sections (sections.py)."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import (
    Field,
    model_validator,
)

from firstflight.settings.sections import Section
from firstflight.settings.types import (
    CHECK_ATTEMPTS,
    DAY_S,
    RESOLVER_RATE,
    Address,
    FileSetting,
    HostName,
    LabNetwork,
    Limit,
    PortRange,
    Rate,
    ScanNetwork,
    WeightedResolver,
    is_ours,
)


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
