"""All sections together: checks across sections, and values per vantage point."""

from __future__ import annotations

from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from firstflight.errors import UsageError
from firstflight.settings.sections import (
    AsData,
    Backoff,
    Campaign,
    Capture,
    Centre,
    Clock,
    Network,
    Section,
    Store,
    Targets,
    Vantage,
)
from firstflight.settings.sending import (
    Calibrate,
    Crawl,
    Download,
    Handshake,
    Probe,
    Resolve,
    Scan,
    TcpOptions,
    Watch,
)
from firstflight.settings.types import is_in
from firstflight.shard import WHOLE, Shard
from firstflight.suggestion import did_you_mean


class Settings(Section):
    """All settings of a campaign."""

    campaign: Campaign = Campaign()
    targets: Targets
    as_data: AsData
    resolve: Resolve = Resolve()
    scan: Scan = Scan()
    probe: Probe = Probe()
    handshake: Handshake = Handshake()
    calibrate: Calibrate = Calibrate()
    crawl: Crawl = Crawl()
    tcp_options: TcpOptions = TcpOptions()
    download: Download = Download()
    watch: Watch = Watch()
    backoff: Backoff = Backoff()
    clock: Clock = Clock()
    capture: Capture = Capture()
    network: Network = Network()
    store: Store = Store()
    centre: Centre = Centre()
    vantage: tuple[Vantage, ...] = ()

    @model_serializer(mode="wrap")
    def _without_optional_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit optional sections with default values.

        Earlier versions at vantage points, which do not know these sections, can then read the rest.
        """
        values: dict[str, Any] = dump(self)
        for section in optional_sections():
            if getattr(self, section) == type(self).model_fields[section].default:
                values.pop(section, None)
        return values

    @model_validator(mode="after")
    def _is_consistent(self) -> Settings:
        if not self.vantage:
            raise ValueError(
                'there is no [[vantage]]: name at least one, for example [[vantage]] name = "here"'
            )
        names = [vantage.name for vantage in self.vantage]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two vantage points are called {name}")
        if not self.campaign.contact.strip() and not self.probe.allow_net:
            raise ValueError(
                "campaign.contact is empty: say how operators can reach you (it is sent in every close), "
                "or name lab networks in probe.allow_net"
            )
        campaign, pause_s = self.campaign, self.download.run_pause_s
        is_early = campaign.repetitions > 1 and campaign.repetition_interval_s < pause_s
        if self.download.enabled and is_early and not self.probe.allow_net:
            raise ValueError(
                f"campaign.repetition_interval_s is {campaign.repetition_interval_s:g}, but a name and "
                f"address gets downloads once in {pause_s:g} s (download.run_pause_s): raise it, or name lab "
                "networks in probe.allow_net"
            )
        # Downloads start in the first half of a turn (downloader/shared_limits.py).
        half_s, longest_s = pause_s + campaign.clock_slack_s, self.resolve.longest_s()
        can_be_late = self.download.resolves_again and self.takes_turns and half_s <= longest_s
        if self.download.enabled and can_be_late:
            raise ValueError(
                f"download.run_pause_s is {pause_s:g}, but resolving a name again can take {longest_s:g} s, "
                "so a vantage point's turn can end first: raise it, lower resolve.timeout_s or "
                "resolve.attempts, or set download.resolve_again = false"
            )
        if self.download.enabled and self.download.draw == "survey" and not self.tcp_options.enabled:
            raise ValueError(
                'download.draw = "survey" needs the survey of TCP options in the same run: set '
                'tcp_options.enabled = true, or download.draw = "names"'
            )
        for vantage in self.vantage:
            first, last = map(int, (vantage.ports or self.probe.ports).split("-"))
            if vantage.shards > 1 and last - first + 1 < 2 * vantage.shards:
                raise ValueError(
                    f"{vantage.shards} shards of {vantage.name} need two ports each, not {first}-{last}"
                )
        return self

    @model_validator(mode="after")
    def _may_scan(self) -> Settings:
        if self.scan.enabled and 4 not in self.probe.families:
            raise ValueError(
                "scan.enabled needs IPv4, but probe.families lacks 4: add it, or disable the scan"
            )
        for network in self.scan.networks if self.scan.enabled else ():
            if not self.campaign.contact.strip() and not is_in(network, self.probe.allow_net):
                raise ValueError(
                    f"campaign.contact is empty, but scan.networks has {network}, which is not in "
                    "probe.allow_net: say how operators can reach you"
                )
        return self

    @property
    def shared_by(self) -> int:
        """The number of vantage points that share the limits: all, or 1 if each has its own limits."""
        return len(self.vantage) if self.campaign.shared_limits else 1

    @property
    def takes_turns(self) -> bool:
        """Whether several vantage points share limits, so that each sends in its turns."""
        return self.shared_by > 1

    def vantage_named(self, name: str) -> Vantage:
        """Return the vantage point `name`. Raise UsageError if it does not exist."""
        for vantage in self.vantage:
            if vantage.name == name:
                return vantage
        known = [vantage.name for vantage in self.vantage]
        raise UsageError(
            f"no vantage point is called {name}; the settings name {', '.join(known)}"
            f"{did_you_mean(name, known)}"
        )

    def rate_at(self, vantage: Vantage, shard: Shard = WHOLE) -> float:
        """Return the new probes per second for a vantage point or a shard of it."""
        return (self.probe.rate if vantage.rate is None else vantage.rate) / shard.count

    def ports_at(self, vantage: Vantage, half: int | None = None, shard: Shard = WHOLE) -> str:
        """Return a vantage point's source ports, as FIRST-LAST. `half` 0 or 1: the first or second half.

        `shard`: return the ports of this shard. Shards have no common ports.
        """
        ports = vantage.ports or self.probe.ports
        if not shard.is_whole:
            first, last = map(int, ports.split("-"))
            begin, end = (
                first + (last - first + 1) * n // shard.count for n in (shard.index, shard.index + 1)
            )
            ports = f"{begin}-{end - 1}"
        if half is None:
            return ports
        first, last = map(int, ports.split("-"))
        second_half = (first + last + 1) // 2
        if second_half - first < 2 or last - second_half < 1:
            raise UsageError(f"a watch needs at least four source ports at {vantage.name}, not {ports}")
        return f"{first}-{second_half - 1}" if half == 0 else f"{second_half}-{last}"

    def index_of(self, name: str) -> int:
        """Return a vantage point's index, from 0."""
        return [vantage.name for vantage in self.vantage].index(self.vantage_named(name).name)


def optional_sections() -> list[str]:
    """Return the sections of stages that run only if `enabled` is set."""
    return [
        name
        for name, field in Settings.model_fields.items()
        if getattr(field.default, "enabled", True) is False
    ]
