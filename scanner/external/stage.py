"""The scan stage: ZMap finds QUIC servers in the networks of `[scan]`, before the key's probes.

Later stages of the key also contact the addresses that answered, without a name (`scanner.driver.choose`).
Answers are in memory until ZMap ends, so a stage that is interrupted starts again. ZMap holds the lock on the
stage's folder. A stage waits for the ZMap of an earlier attempt, which may still run after kill -9.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.egress.permitted import Permitted, addresses_in
from firstflight.errors import UsageError
from firstflight.layout import StageKey
from firstflight.run.engines import await_engine
from firstflight.run.provenance import ruleset_hash
from firstflight.run.run import Run
from firstflight.settings import Settings, Vantage
from firstflight.shard import Shard
from firstflight.system import files, lock
from scanner.driver import engine_pause, rules
from scanner.driver.arguments import derive
from scanner.driver.segments import BATCH
from scanner.external import zmap
from scanner.external.sweep import Sweep
from scanner.records import merge
from scanner.records.provenance import provenance
from schemas import records

KIND = "scan_answer"


def stage(run: Run, key: StageKey) -> None:
    """Scan the networks of `[scan]` from the vantage point of `key`, and write scan_answer.parquet.

    Raise UsageError if the settings do not enable the stage or a network must not be scanned, ListsChanged if
    a list changes meanwhile, and Interrupted on SIGINT or a stop.
    """
    settings = run.settings
    if not settings.scan.enabled:
        raise UsageError("scan.enabled is false in the settings of this run: nothing was sent")
    with run.stage("scan", key) as report:
        rules.check_lists(run)
        probe, sweep, out = settings.probe, sweep_of(run, key), run.layout.scan_answer(key)
        permitted = Permitted(probe.blocklist, probe.optout, probe.allow_net)
        check_networks(settings, permitted)
        with files.explain_os_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
        await_engine(out.parent, run.check_not_stopped)
        in_force = rules.rule_files(run)
        rules.copy_into_run(run, in_force)
        engine_pause.wait(run, engine_pause.pause_s(settings), "nothing was sent")
        common = provenance(run, key, report.tool_version, ruleset_hash(in_force), out)
        mapper = Mapper(run.layout.as_data)
        with (
            lock.locked_descriptors(out.parent) as held,
            # An error while the records are written stops ZMap immediately.
            contextlib.closing(zmap.run(sweep, permitted, run.check_not_stopped, held)) as speakers,
        ):
            report.rows_out = merge.write(_tables(speakers, common, mapper), out, KIND)
        spans = sweep.spans()
        addresses = addresses_in(spans)
        report.counts = {"answered": report.rows_out}
        report.facts = {
            "addresses": addresses,
            "blocked": addresses - addresses_in(permitted.permitted_ipv4(spans)),
            "rate": sweep.fair_rate(permitted),
        }
        run.add_output(report, out)


def check_networks(settings: Settings, permitted: Permitted) -> None:
    """Raise UsageError for a network of `[scan]` with special-purpose addresses that are not allowed."""
    for text in settings.scan.networks:
        network = ipaddress.IPv4Network(text)
        special = permitted.special_ipv4([(int(network.network_address), int(network.broadcast_address))])
        if special:
            raise UsageError(
                f"scan.networks has {text}, and {ipaddress.IPv4Address(special[0][0])} is special-purpose: "
                "remove it, or name a private network in probe.allow_net; nothing was sent"
            )


def sweep_of(run: Run, key: StageKey) -> Sweep:
    """Return the options of ZMap for a key."""
    seed = int(run.manifest["seed"]) ^ int(derive(str(run.manifest["cid_key"]), key.whole, 4, "scan"), 16)
    # Not 0, which is no seed for some versions of ZMap.
    return sweep_at(run.settings, run.settings.vantage_named(key.vantage), key.shard, seed & 0xFFFF_FFFF or 1)


def sweep_at(settings: Settings, vantage: Vantage, shard: Shard, seed: int | None = None) -> Sweep:
    """Return the options of ZMap for a shard of a vantage point.

    ZMap cannot take turns, so vantage points that share limits, and shards, divide the limit per prefix.
    """
    scan, probe = settings.scan, settings.probe
    sources = [source for source in vantage.sources if ipaddress.ip_address(source).version == 4]
    return Sweep(
        scan.networks,
        port=probe.port,
        rate=scan.rate / shard.count,
        per_prefix_rate=probe.per_prefix_rate / (settings.shared_by * shard.count),
        ports=settings.ports_at(vantage, shard=shard),
        contact=settings.campaign.contact,
        cooldown_s=scan.cooldown_s,
        seed=seed,
        source=sources[0] if sources else None,
        shard=shard,
    )


def _tables(
    speakers: Iterable[zmap.Speaker], common: merge.StageProvenance, mapper: Mapper
) -> Iterator[pa.Table]:
    """Yield the records of the addresses, in tables of at most BATCH rows; at least one table."""
    schema = records.load(KIND).arrow_schema()
    remaining = iter(speakers)
    while True:
        rows = [_row(speaker, common, mapper) for speaker in islice(remaining, BATCH)]
        yield pa.Table.from_pylist(rows, schema)
        if len(rows) < BATCH:
            return


def _row(speaker: zmap.Speaker, common: merge.StageProvenance, mapper: Mapper) -> dict[str, Any]:
    origin = mapper.origin(speaker.ip)
    return {
        **common.key.columns(),
        "ip": speaker.ip,
        "port": speaker.port,
        "asn": origin.asn,
        "cdn": origin.cdn,
        "received_at": speaker.received_at,
        "version_list": ",".join(f"0x{version:08x}" for version in speaker.versions),
        "ttl": speaker.ttl,
        "clock_offset_us": common.clock_offset_us,
        "tool_version": common.tool_version,
        "host": common.host,
        "worker": common.worker,
        "ruleset": common.ruleset,
        "source_file": common.source_file,
    }
