"""`firstflight watch`: probes names at set times, for a number of periods."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cli.run.doctor import check_before
from firstflight.system import terminal


@click.command(epilog="Example: firstflight watch --config watch.toml --period 3600 --periods 24")
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", required=True, help="Settings (TOML)."
)
@click.option("--period", type=click.FloatRange(min=1), metavar="SECONDS", help="Length of a period.")
@click.option(
    "--periods",
    type=click.IntRange(min=1, max=100_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of periods to probe.",
)
@click.option("--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Any other setting.")
@click.option("--dry-run", is_flag=True, help="Describe the plan; fetch and send nothing.")
def command(
    config: Path, period: float | None, periods: int, overrides: tuple[str, ...], dry_run: bool
) -> None:
    """Probe the names of FILE's target list once a minute from every vantage point; `owned` names more often.

    The run id is the last line of standard output. A skipped probe has a row with the reason. Ctrl-C or
    `firstflight runs stop` stops gracefully (exit 130) and keeps all results.
    """
    from firstflight import settings
    from firstflight.egress import lists
    from firstflight.run.run import Run
    from orchestration.checks import every
    from orchestration.local import lifecycle, preview
    from orchestration.local.watching import Watching
    from orchestration.stages import RunPlan

    given = [*([] if period is None else [f"watch.period_s={period}"]), *overrides]
    in_force, text = settings.load(config, given)
    lists.check(in_force.probe.blocklist, in_force.probe.optout)
    period_s = in_force.watch.period_s
    if dry_run:
        for line in preview.describe(in_force, RunPlan.WATCH, periods):
            terminal.echo(line)
        check_before(every.before_campaign(in_force, may_send=False), dry_run=True)
        return
    every.check_names(in_force)
    check_before(every.before_campaign(in_force, may_send=True), dry_run=False)
    run = Run.create(in_force, text, given)
    run.write_manifest({**run.manifest, "kind": "watch", "repetitions": periods, "period_s": period_s})
    terminal.echo(f"run {run.id}: {run.path}", err=True)
    try:
        status = lifecycle.run_campaign(run, Watching)
    finally:
        terminal.echo(run.id)
    sys.exit(status)
