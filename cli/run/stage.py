"""`firstflight stage NAME`: runs single stages of a run; a campaign runs each stage with this command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from cli.shared.run_name import opened
from firstflight.errors import UsageError
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.run import Run
from firstflight.settings.types import DAY_S
from firstflight.shard import parse
from firstflight.system import open_files, terminal
from orchestration import execute, runner, stages
from orchestration.stages import Scope, Stage
from store import confined_command as confined
from store.load import reached

_EPILOG = """Example: firstflight stage probe --run 20261120T063905Z-a1b2c3 --vantage hamburg --repetition 1

Example: firstflight stage watch --run 20261120T063905Z-a1b2c3 --vantage hamburg --repetition 7 --period 3600
--start 2026-11-20T12:00:00Z"""


_OF_KEYS = stages.names(stage for stage in stages.STAGES if stage.scope is Scope.KEY)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


_HELP = f"""Run stages of a run, one after the other.

Stages are {_listed(stages.names(stages.by_default()))}. The settings can also enable
{_listed(stages.names(stages.optional()))}. If the settings give a command for the vantage point or for the
centre, that command runs stages that send or fetch. Finished stages are skipped; interrupted stages
continue. If the run's stop file exists, the stage sends nothing (exit 130).
"""


@click.command(help=_HELP, epilog=_EPILOG)
@click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", type=click.Choice(sorted(stages.names()))
)
@click.option(
    "--run", "run_name", required=True, metavar="RUN", help="Run id, newest, or path of a run's folder."
)
@click.option(
    "--vantage",
    metavar="V",
    help=f"Vantage point ({', '.join(_OF_KEYS)}; load: only its rows).",
)
@click.option("--repetition", type=click.IntRange(min=1), metavar="N", help="Repetition, from 1.")
@click.option(
    "--shard",
    "shard_text",
    metavar="K/N",
    help="Shard of a vantage point with N shards, K from 0 (same stages as --vantage, except download and "
    "watch).",
)
@click.option(
    "--period",
    type=click.FloatRange(min=1, max=DAY_S),
    metavar="SECONDS",
    help="watch: length of the period.",
)
@click.option(
    "--start",
    metavar="TIME",
    help="watch: start of the period (UTC), for example 2026-11-20T12:00:00Z [the next whole minute].",
)
@click.option(
    "--centre-clock",
    type=click.IntRange(min=1),
    metavar="NS",
    help="Time at the centre (ns since 1970) when it started this command, for the comparison of the clocks.",
)
@click.option(
    "--here",
    is_flag=True,
    help="Run on this machine, without the command of the vantage point or centre (set by the campaign).",
)
@click.option("--again", is_flag=True, help="Run finished stages again and replace their output.")
def command(
    names: tuple[str, ...],
    run_name: str,
    vantage: str | None,
    repetition: int | None,
    shard_text: str | None,
    period: float | None,
    start: str | None,
    centre_clock: int | None,
    here: bool,
    again: bool,
) -> None:
    """Run stages of a run, one after the other (_HELP)."""
    open_files.raise_limit()
    run = opened(run_name)
    chosen = [stages.named(name) for name in names]
    for stage in chosen:
        _check_scope(stage, vantage, repetition)
    key = _key(run, chosen, vantage, repetition, shard_text)
    if here:
        _check_here(run, chosen, vantage)
        execute.end_with_campaign()
    remote = {} if here else execute.remote_commands(run, vantage)
    sending = [stage for stage in chosen if stage.sends]
    if sending:
        _check_schedule(run, vantage)
        run.check_not_stopped()
        if site_vantage := run.manifest.get("vantage"):
            from orchestration.site import inputs

            inputs.write_blocked(run, inputs.local_vantage_point(site_vantage))
        if key is not None and not any(stage.name in remote for stage in sending):
            warning = clock.compare(run, key, centre_clock)
            if warning is not None:
                terminal.echo(warning, err=True)
    if not any(stage.timed for stage in chosen) and (period is not None or start is not None):
        raise UsageError(f"--period and --start belong to the stage {_timed()}")
    times = _Times(period, start, None if start is None else _utc_ns(start))
    rejected = False
    for stage in chosen:
        stage_key = None if stage.scope is Scope.RUN else key
        if stage.name in remote:
            options = [*(times.options() if stage.timed else []), *["--again"] * again]
            execute.run_remote(run, stage, remote[stage.name], stage_key, options)
        elif stage.confined and len(chosen) > 1:
            # Confinement is permanent, and the other stages could not work with it.
            execute.run_alone(stage.name, runner.stage_argv((), None, [stage.name], run.path, stage_key))
        else:
            if stage.confined:
                confined.confine_to_writing(
                    run.settings.store.url, readable=[*reached.paths(run.path)], writable=[run.path]
                )
            more = times.arguments() if stage.timed else {}
            execute.run_here(run, stage, stage_key, again, more, patient=here)
        if stage.scope is not Scope.KEY:
            report = run.report(stage.name, stage_key)
            rejected = rejected or bool(report is not None and report.rejected)
    if rejected:  # the rest is done
        sys.exit(1)


@dataclass(frozen=True)
class _Times:
    """A timed stage's period, as given by the options."""

    period_s: float | None
    start: str | None
    start_ns: int | None

    def arguments(self) -> dict[str, object]:
        """Return the arguments of the stage's function."""
        return {"period_s": self.period_s, "start_ns": self.start_ns}

    def options(self) -> list[str]:
        """Return the options of the stage's remote command."""
        return [
            *([] if self.period_s is None else ["--period", f"{self.period_s:g}"]),
            *([] if self.start is None else ["--start", self.start]),
        ]


def _timed() -> str:
    return " or ".join(stage.name for stage in stages.STAGES if stage.timed)


def _key(
    run: Run, chosen: Sequence[Stage], vantage: str | None, repetition: int | None, shard_text: str | None
) -> StageKey | None:
    """Return the key that the options name.

    UsageError if the vantage point or the shard is unknown, or if a required shard is missing.
    """
    if vantage is None or repetition is None:
        if shard_text is not None:
            raise UsageError("--shard needs --vantage and --repetition")
        return None
    shards = stages.shards_of(run, vantage)
    if shard_text is None:
        if len(shards) > 1 and any(stage.scope is Scope.KEY for stage in chosen):
            raise UsageError(
                f"{vantage} has {len(shards)} shards in run {run.id}: give one, --shard 0/{len(shards)} "
                f"to {shards[-1]}"
            )
        return run.key(vantage, repetition)
    shard = parse(shard_text)
    if shard not in shards:
        raise UsageError(
            f"run {run.id} has no shard {shard}: {vantage} has vantage.shards = {len(shards)}; start another "
            "run for another number of shards"
        )
    return run.key(vantage, repetition, shard)


def _check_scope(stage: Stage, vantage: str | None, repetition: int | None) -> None:
    """Raise UsageError if --vantage or --repetition is missing."""
    if stage.scope is Scope.KEY and (vantage is None or repetition is None):
        raise UsageError(f"stage {stage.name} needs --vantage and --repetition")
    if stage.scope is Scope.EITHER and (vantage is None) != (repetition is None):
        raise UsageError(f"stage {stage.name} takes --vantage and --repetition together, or neither")


def _check_schedule(run: Run, vantage: str | None) -> None:
    """Raise UsageError if Airflow started the run and this machine is not the vantage point `vantage`."""
    manifest = run.manifest
    site = manifest.get("vantage")
    if manifest.get("dag_run") and site != vantage:
        raise UsageError(
            f"run {run.id} was started by Airflow, and this is {site or 'the centre'}: run this stage at "
            f"vantage point {vantage}; nothing was sent"
        )


def _check_here(run: Run, chosen: Sequence[Stage], vantage: str | None) -> None:
    """Raise UsageError if a stage that sends or fetches belongs on a lab host, and this is not that host.

    If no host has that name, the lab's mark is sufficient: a test's namespace has no names.
    """
    from firstflight.egress.lab import is_lab
    from lab import enter

    names = stages.names(chosen)
    for name, (prefix, _) in execute.remote_commands(run, vantage).items():
        host = enter.host_in(prefix)
        if name not in names or host is None:
            continue
        on = enter.is_on_host(host)
        if not (is_lab() if on is None else on):
            raise UsageError(
                f"stage {name} runs on the lab's host {host}, but this is another host: omit --here, or run "
                f"the stage with firstflight lab exec {host}; nothing was sent"
            )


def _utc_ns(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--start {text}: write it like 2026-11-20T12:00:00Z") from error
    if not 2000 <= moment.year < 2200:
        raise UsageError(f"--start {text}: the year must be between 2000 and 2199")
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(aware.replace(microsecond=0).timestamp()) * 10**9 + aware.microsecond * 1000
