"""`firstflight runs`: lists runs with states and counts, and stops them."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import click

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import stdout, terminal

# A campaign gives its stages 180 s to shut down (orchestration/runner.py).
STOP_WAIT_S = 200.0


@click.command(
    epilog="Example: firstflight runs --format jsonl\n\n"
    "Example: firstflight runs stop 20261120T063905Z-a1b2c3"
)
@click.argument("names", nargs=-1, metavar="[RUN]...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "jsonl"]),
    default="table",
    show_default=True,
    help="Format of the output.",
)
def command(names: tuple[str, ...], form: str) -> None:
    """List runs, oldest first, with state and counts; with RUN, also list the stages.

    `runs stop RUN...` stops runs gracefully: they send no new probes, wait for outstanding answers, and write
    all rows. Stop a scheduled run at the centre; all vantage points stop within seconds.
    """
    from firstflight.run.run import Run, runs_root

    if names and names[0] == "stop":
        if len(names) == 1:
            raise UsageError("say which run to stop: firstflight runs stop RUN")
        for run in [Run.open(name) for name in names[1:]]:
            _stop(run)
        return
    stdout.check_open()
    runs = [Run.open(name) for name in names] if names else Run.all()
    entries = [_entry(run) for run in runs]
    if form == "jsonl":
        for entry in entries:
            terminal.echo(terminal.as_json(entry))
        return
    if not entries:
        hint = "start one: firstflight campaign run --config FILE"
        terminal.echo(f"no runs in {runs_root()}; {hint}", err=True)
    for entry in entries:
        _print(entry, with_stages=bool(names))


def _stop(run: Any) -> None:
    from firstflight.system import files

    files.write_text(run.layout.stop_file, "")
    manifest = run.manifest
    if manifest.get("dag_run"):
        vantage = manifest.get("vantage")
        effect = (
            f"{vantage} stops, the others continue (stop the run at the centre to stop them all)"
            if vantage
            else "its vantage points stop within seconds and load their rows"
        )
        terminal.echo(f"run {run.id}: {effect}", err=True)
        return
    if not run.is_locked():
        terminal.echo(f"run {run.id}: not running; it sends nothing until it is resumed", err=True)
        return
    deadline = time.monotonic() + STOP_WAIT_S
    while run.is_locked():
        if time.monotonic() > deadline:
            raise FirstflightError(
                f"run {run.id} is still running {STOP_WAIT_S:.0f} s after the stop; see its logs folder"
            )
        time.sleep(0.1)
    terminal.echo(f"run {run.id}: {run.manifest['state']}", err=True)


def _entry(run: Any) -> dict[str, Any]:
    from orchestration import stages
    from orchestration.local.manifest import stage_entries

    manifest = run.manifest
    entries = stage_entries(run)
    state = manifest["state"]
    # A scheduled run has no campaign process here; its report task records its end.
    if state == "running" and not run.is_locked() and not manifest.get("dag_run"):
        state = "cut"  # killed before it could record its end
    # Includes interrupted stages, which have written a part of their rows.
    main = stages.main(stages.plan_of(run)).name
    probes = [entry for entry in entries if entry["stage"] == main and entry["rows_out"] is not None]
    outcomes = _counts(probes)
    beside = {
        stage.measures: _counts([entry for entry in entries if entry["stage"] == stage.name])
        for stage in stages.STAGES
        if stage.measures is not None and stage.name != main
    }
    done = _done(run, probes)
    count = sum(s["counts"].get("probed", s["rows_out"] or 0) for s in probes)
    if not probes and isinstance(manifest.get("rows"), dict):
        # The stages of a scheduled run ran elsewhere: use the counts that its report found in the store.
        count = sum(manifest["rows"].values())
        missing = {part.partition(", shard ")[0] for part in manifest["missing"]}
        done = len(manifest["rows"]) * manifest["repetitions"] - len(missing)
    return {
        "run": run.id,
        "name": manifest["name"],
        "state": state,
        "started_at": manifest["started_at"],
        "ended_at": manifest.get("ended_at"),
        "repetitions": manifest["repetitions"],
        "vantages": [vantage.name for vantage in run.settings.vantage],
        "probe_stages_done": done,
        "probes": count,
        "counts": outcomes,
        "beside": {name: counts for name, counts in beside.items() if counts},
        "rejected": sum(entry["rejected"] for entry in entries),
        "warnings": sum(len(entry["warnings"]) for entry in entries),
        "message": manifest.get("message"),
        "stages": entries,
    }


def _counts(entries: list[dict[str, Any]]) -> dict[str, int]:
    """Return the sums of the counts of stages."""
    sums: dict[str, int] = {}
    for entry in entries:
        for name, count in entry["counts"].items():
            sums[name] = sums.get(name, 0) + count
    return sums


def _done(run: Any, stages: list[dict[str, Any]]) -> int:
    """Return for how many (vantage point, repetition) the stages that measured are done, in all shards."""
    shards = {vantage.name: vantage.shards for vantage in run.settings.vantage}
    done = Counter((s["vantage"], s["repetition"], "shard" in s) for s in stages if s["state"] == "done")
    return sum(n // (shards.get(vantage, 1) if divided else 1) for (vantage, _, divided), n in done.items())


def _print(entry: dict[str, Any], *, with_stages: bool) -> None:
    # A watch may have more periods than its settings name.
    done, wanted = entry["probe_stages_done"], entry["repetitions"] * len(entry["vantages"])
    share = f"{done} of {wanted}" if done <= wanted else done
    terminal.echo(
        f"{entry['run']}  {entry['state']:<11}  {entry['name']}: {entry['probes']} probes, "
        f"{share} (vantage point, repetition) done"
    )
    if entry["counts"]:
        terminal.echo("  " + ", ".join(f"{name} {count}" for name, count in entry["counts"].items()))
    for measures, counts in entry["beside"].items():
        terminal.echo(f"  {measures}: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    if entry["message"]:
        terminal.echo(f"  {entry['message']}")
    if not with_stages:
        return
    for stage in entry["stages"]:
        key = f" {stage['vantage']} {stage['repetition']}" if stage["vantage"] else ""
        key += f" shard {stage['shard']}" if "shard" in stage else ""
        terminal.echo(f"  {stage['stage']}{key}: {stage['state']}, {_rows(stage)}")
        for text in [*stage["warnings"], *([stage["message"]] if stage["message"] else [])]:
            terminal.echo(f"    {text}")


def _rows(stage: dict[str, Any]) -> str:
    def shown(number: int | None) -> str:
        return "?" if number is None else str(number)

    not_probed = stage["facts"].get("not_probed") or stage["facts"].get("not_connected")
    return f"{shown(stage['rows_in'])} in, {shown(stage['rows_out'])} out, {stage['rejected']} rejected" + (
        f", {not_probed} {'not probed' if 'not_probed' in stage['facts'] else 'not connected'}"
        if not_probed
        else ""
    )
