"""The watch stage: names probed at set times for a period, from one vantage point (the IMC 2024 paper's
cdn_watch).

The names of the target list once a minute, `owned` ones more often; one stage is one period, which paces
itself: the times stand before it begins (`scanner.slots`), and the prober keeps them. A slot that is not
probed is a row with its reason. A stage that was cut goes on with what is left of its period; one that comes
after its end writes down what was missed, and sends nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firstflight import accounting, files, ledger
from firstflight.as_map import Mapper
from firstflight.capture import records as captures_in
from firstflight.errors import Interrupted, UsageError
from firstflight.progress import Progress
from firstflight.runs import Rejected, Run, StageReport, ruleset_hash, tool_version
from firstflight.setting_types import HOST_NAME
from firstflight.settings import Settings
from scanner import choose, merge, pauses, probe, prober_process, slot_records
from scanner.addresses import Addresses
from scanner.feed import FIRST_SLOT, Feed
from scanner.guard import Guard
from scanner.resolve import read_targets, the_resolver
from scanner.resolve_engine import Name
from scanner.right_of_way import RightOfWay
from scanner.slots import SECOND_NS, Feeder, Series, Slot, plan, series

PERIOD_FILE = "period.json"
# Names of owned servers that are in no list.
OWNED_LIST_ID = "owned"


def stage(
    run: Run, vantage: str, repetition: int, *, start_ns: int | None = None, period_s: float | None = None
) -> None:
    """Watch for one period: `repetition` is its number within the run.

    It begins at `start_ns` (UTC; None: the next whole minute) and lasts `period_s` (None: as the settings
    say); a stage that goes on keeps the period it began with. Writes quic_probe.parquet, watch_slot.parquet
    and dns_answer.parquet into the watch folder, and a capture. Raises FirstflightError with one sentence.
    """
    settings = run.settings
    with run.stage("watch", vantage, repetition) as report:
        if run.report("probe", vantage, repetition) is not None:
            raise UsageError(
                f"repetition {repetition} of {vantage} in run {run.id} is a campaign's: "
                "a watch needs a run of its own"
            )
        folder = run.stage_dir("watch", vantage, repetition)
        names = _usable(read_targets(run), report)
        owned = set(settings.watch.owned)
        common = [name for name in names if name.domain not in owned]
        ledger.check_watch(settings, len(common))
        period = _period(folder / PERIOD_FILE, settings, start_ns, period_s)
        slots = list(plan(_series(settings, vantage, common), *period))
        if not slots:
            raise UsageError(f"the period of {(period[1] - period[0]) / SECOND_NS:g} s holds no slot")
        report.rows_in = len(slots)
        rules = probe.rule_files(run)
        probe.keep_rules(run, rules)
        known = {name.domain: name for name in names}
        watched = [
            known.get(domain, Name(None, domain, OWNED_LIST_ID)) for domain in sorted({*known, *owned})
        ]
        mapper = Mapper(run.as_data)
        stopped: Interrupted | None = None
        over = time.time_ns() >= period[1]
        if not over:
            way = RightOfWay(run, vantage, period[0])
            try:
                with way:
                    _watch(run, vantage, repetition, slots, watched, mapper, report, way)
            except Interrupted as error:
                stopped = error
            if way.left_out:
                report.warnings.append(
                    f"{way.left_out} slots were left to another watch that was at work here (skipped: limit)"
                )
        # A prober that ended in order leaves a summary; otherwise nobody was there in time.
        unfed = "late" if over and not (folder / "summary.json").is_file() else "stopped"
        _write_records(run, vantage, repetition, slots, known, mapper, ruleset_hash(rules), report, unfed)
        if stopped is not None:
            raise stopped


def _usable(names: Sequence[Name], report: StageReport) -> list[Name]:
    """The names that can be sent as SNI; the others are rejected by the place of their row in the target
    list."""
    for place, name in enumerate(names, start=1):
        if not HOST_NAME.fullmatch(name.domain):
            report.rejected.append(Rejected(line=place, reason=f"{name.domain!r} is no host name"))
    return [name for name in names if HOST_NAME.fullmatch(name.domain)]


def _period(path: Path, settings: Settings, start_ns: int | None, period_s: float | None) -> tuple[int, int]:
    """First and last moment (excluded) of the period, from the file if it was begun before."""
    if not path.is_file():
        minute_ns = round(settings.watch.minute_s * SECOND_NS)
        # There must be time to start capture and prober.
        ready_ns = time.time_ns() + 3 * SECOND_NS
        first = -(-ready_ns // minute_ns) * minute_ns if start_ns is None else start_ns
        length_ns = round((settings.watch.period_s if period_s is None else period_s) * SECOND_NS)
        files.write_json(path, {"start_ns": first, "end_ns": first + length_ns})
    period = files.read_json(path)
    return int(period["start_ns"]), int(period["end_ns"])


def _series(settings: Settings, vantage: str, common: Sequence[Name]) -> list[Series]:
    watch = settings.watch
    place = (settings.place_of(vantage), len(settings.vantage))
    often_s = watch.minute_s / watch.owned_per_minute
    return [
        *series("watch", [name.domain for name in common], watch.families, watch.minute_s, place),
        *series("owned", watch.owned, watch.families, often_s, place),
    ]


def _watch(
    run: Run,
    vantage: str,
    repetition: int,
    slots: Sequence[Slot],
    watched: Sequence[Name],
    mapper: Mapper,
    report: StageReport,
    way: RightOfWay,
) -> None:
    """Run the prober with the capture beside it until the period is over."""
    settings = run.settings
    here = settings.vantage_named(vantage)
    folder = run.stage_dir("watch", vantage, repetition)
    segments = folder / "segments"
    with files.said_in_one_sentence(segments):
        segments.mkdir(parents=True, exist_ok=True)
    resolver = the_resolver(settings.resolve)
    addresses = Addresses(
        watched,
        settings.watch.families,
        resolver,
        settings.resolve,
        {
            "run": run.id,
            "vantage": vantage,
            "repetition": repetition,
            "resolver": resolver.label,
            "tool_version": tool_version(),
        },
    )
    addresses.resolve()
    # Those of the period before may still wait for answers at the others.
    ports = settings.ports_at(here, half=repetition % 2)
    key = str(run.manifest["cid_key"])
    argv = prober_process.arguments(
        settings,
        here,
        folder,
        seed=(int(run.manifest["seed"]) ^ int(prober_process.derive(key, vantage, repetition, 7), 16)),
        cid_key=prober_process.derive(key, vantage, repetition, 16),
        resume=bool(merge.closed_segments(segments)),
        listed=False,
        ports=ports,
    )
    feed = Feed()
    # A slot that was handed over before the stage was cut is not probed twice.
    begun = {entry["slot"] for entry in slot_records.fed(folder)}
    label = f"{vantage}, period {repetition}"
    looking = Guard(settings.manners, folder, lambda ip: mapper.origin(ip).asn, feed, label)
    with ExitStack() as stack:
        running = stack.enter_context(probe.capture_beside(run, here, repetition, ports))
        progress = stack.enter_context(Progress(folder, label, len(slots)))
        feeder = Feeder(
            feed,
            folder / slot_records.LOG,
            (slot for slot in slots if slot.number not in begun),
            address=addresses.of,
            asn_of=lambda ip: mapper.origin(ip).asn,
            grace_ms=lambda _: settings.watch.grace_ms,
            port=settings.probe.port,
            reason_to_skip=way.reason_to_skip,
        )
        stack.callback(feeder.close)
        stack.callback(lambda: addresses.write(folder / "dns_answer.parquet"))
        stack.callback(addresses.close)
        begin = [True]

        def watch() -> None:
            if begin[0]:
                # Threads only now: the child processes have been started.
                begin[0] = False
                addresses.again_every(settings.watch.resolve_every_s)
            if running is not None:
                running.check()
            run.check_not_stopped()
            now_ns = time.time_ns()
            way.look(now_ns)
            feeder.tick(now_ns)
            looking.look(now_ns)
            progress.update(looking.slots)

        clocks = time.time_ns() - time.monotonic_ns()
        try:
            prober_process.run(argv, folder / "prober.log", feed, watch)
        finally:
            looking.look(time.time_ns())
            progress.update(looking.slots)
            report.warnings += looking.warnings
            step_us = (time.time_ns() - time.monotonic_ns() - clocks) // 1000
            report.facts["clock_step_us"] = step_us
            if abs(step_us) > settings.watch.grace_ms * 1000:
                report.warnings.append(
                    f"the clock here was set by {step_us / 1e6:.1f} s during the period: planned times were "
                    "kept by the clock before, stamps are the kernel's"
                )
    if running is not None:
        report.warnings += running.losses()


def _write_records(
    run: Run,
    vantage: str,
    repetition: int,
    slots: Sequence[Slot],
    known: dict[str, Name],
    mapper: Mapper,
    ruleset: str,
    report: StageReport,
    unfed_reason: str,
) -> None:
    folder = run.stage_dir("watch", vantage, repetition)
    closed = merge.closed_segments(folder / "segments")
    rows: pa.Table | None = merge.read_segments(closed) if closed else None
    fed = {entry["slot"]: entry for entry in slot_records.fed(folder)}
    unfed = slot_records.planned(slot for slot in slots if slot.number not in fed)
    table = slot_records.build(
        folder,
        sorted([*fed.values(), *unfed], key=lambda entry: int(entry["slot"])),
        {} if rows is None else slot_records.of_segments(rows),
        probe.slot_columns(run, vantage, repetition, report),
        mapper.origin,
        unfed_reason,
    )
    if table.num_rows != len(slots):
        raise UsageError(
            f"{folder} holds {table.num_rows} slots and the period has {len(slots)}: the settings or the "
            "list have changed since it began; do the stage with --again"
        )
    out = folder / "watch_slot.parquet"
    slot_records.write(table, out)
    run.add_output(report, out)
    counts = slot_records.counts(table)
    if rows is not None:
        counts |= _write_probes(run, vantage, repetition, rows, known, mapper, ruleset, report)
    report.rows_out = table.num_rows
    report.counts = counts
    if (folder / "summary.json").is_file():
        probe.note(files.read_json(folder / "summary.json"), report)
    report.warnings = list(dict.fromkeys(report.warnings))
    if (folder / "dns_answer.parquet").is_file():
        run.add_output(report, folder / "dns_answer.parquet")


def _write_probes(
    run: Run,
    vantage: str,
    repetition: int,
    rows: pa.Table,
    known: dict[str, Name],
    mapper: Mapper,
    ruleset: str,
    report: StageReport,
) -> dict[str, int]:
    """Write quic_probe.parquet; give the counts by outcome, checked to balance."""
    folder = run.stage_dir("watch", vantage, repetition)
    out = folder / "quic_probe.parquet"
    by_outcome = {
        str(entry["values"]): int(entry["counts"]) for entry in pc.value_counts(rows["outcome"]).to_pylist()
    }
    sent = sum(1 for attempts in rows["attempts"].to_pylist() if attempts)
    accounting.balance(rows.num_rows, sent, by_outcome, f"{vantage}, period {repetition}")
    merged = merge.merge(
        rows,
        _own_columns(rows, known, the_resolver(run.settings.resolve).label),
        probe.provenance(run, vantage, repetition, report.tool_version, ruleset, out),
        origin=mapper.origin,
        pauses=pauses.read_pauses(folder),
        captures=captures_in(run.stage_dir("capture", vantage, repetition)),
        capture_name=probe.capture_name(run, vantage, repetition),
        earlier=[],
        slots=pc.subtract(rows["target"], pa.scalar(FIRST_SLOT, pa.uint32())).combine_chunks(),
    )
    merge.write(merged, out)
    run.add_output(report, out)
    return {"sent": sent, **dict(sorted(by_outcome.items()))}


def _own_columns(rows: pa.Table, known: dict[str, Name], resolver: str) -> pa.Table:
    """What a plan of `scanner.choose` would say of each row."""
    columns: list[dict[str, Any]] = []
    for domain, ip in zip(rows["domain"].to_pylist(), rows["ip"].to_pylist(), strict=True):
        name = known.get(domain)
        columns.append(
            {
                "target": 0,
                "domain": domain,
                "ip": ip,
                "list_id": OWNED_LIST_ID if name is None else name.list_id,
                "rank": None if name is None else name.rank,
                "address_rank": None,  # as the description says: no part of tables over names
                "resolver": resolver,
            }
        )
    return pa.Table.from_pylist(columns, schema=choose.PLAN)
