"""`firstflight campaign`: runs or resumes a campaign."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from cli.run.doctor import check_before
from firstflight.errors import UsageError
from firstflight.system import terminal


@click.group(epilog="Example: firstflight campaign run --config lab/campaign.toml --dry-run")
def command() -> None:
    """Run a measurement campaign, or resume one."""


# Flags that set one setting each; --set reaches the others.
NAMED = {
    "repetitions": "campaign.repetitions",
    "contact": "campaign.contact",
    "date": "targets.date",
    "top": "targets.top",
    "resolver": "resolve.resolver",
    "rate": "probe.rate",
    "store": "store.url",
}


@command.command(
    epilog="Example: firstflight campaign run --config lab/campaign.toml --repetitions 3 --set probe.rate=100"
)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings (TOML).")
@click.option("--resume", metavar="RUN", help="Resume this run, with its own settings.")
@click.option(
    "--repetitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="Passes over the list; overrides campaign.repetitions.",
)
@click.option("--contact", metavar="TEXT", help="How operators reach you; sent in every close.")
@click.option("--date", metavar="YYYY-MM-DD", help="Day of the Tranco list.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Names to take from the list.")
@click.option("--resolver", metavar="IP", help="Resolver to query; overrides resolve.resolver.")
@click.option("--rate", type=float, metavar="N", help="New probes per second and vantage point.")
@click.option(
    "--store", metavar="URL", help="chdb:PATH or clickhouse://USER@HOST:PORT/DB?password_file=FILE."
)
@click.option("--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Any other setting.")
@click.option("--dry-run", is_flag=True, help="Describe the plan; fetch and send nothing.")
def run(
    config: Path | None,
    resume: str | None,
    overrides: tuple[str, ...],
    dry_run: bool,
    **named: object,
) -> None:
    """Run the campaign that FILE describes; the run id is the last line of standard output.

    Ctrl-C stops gracefully (exit 130) and keeps all results; --resume RUN continues. Exit 1: a vantage point
    or a later stage failed (`firstflight runs` shows which). If all vantage points failed, the exit status is
    the first one's.
    """
    from firstflight import settings
    from firstflight.egress import lists
    from firstflight.run.run import Run
    from orchestration import stages
    from orchestration.checks import every
    from orchestration.local import lifecycle, preview

    given = [f"{NAMED[flag]}={_toml(value)}" for flag, value in named.items() if value is not None]
    given += overrides
    if (config is None) == (resume is None):
        raise UsageError("give either --config FILE for a new run or --resume RUN to continue one")
    if resume is not None:
        the_run = Run.open(resume)
        if stages.plan_of(the_run) is stages.RunPlan.WATCH:
            raise UsageError(f"run {the_run.id} is a watch, which cannot be resumed: start a new one")
        if the_run.manifest.get("dag_run"):
            raise UsageError(
                f"run {the_run.id} was started by Airflow and cannot be resumed here: start another run of "
                "the DAG"
            )
        repetitions = named.pop("repetitions")
        if overrides or any(value is not None for value in named.values()):
            raise UsageError(
                f"run {the_run.id} keeps its settings; with --resume only --repetitions can change"
            )
        lists.check(the_run.settings.probe.blocklist, the_run.settings.probe.optout)
        if dry_run:
            _print([*preview.describe(the_run.settings), *preview.outstanding(the_run)])
            check_before(every.before_campaign(the_run.settings, may_send=False, is_new=False), dry_run=True)
            return
        check_before(every.before_campaign(the_run.settings, may_send=True, is_new=False), dry_run=False)
        with the_run.lock():
            the_run.layout.stop_file.unlink(missing_ok=True)
            if isinstance(repetitions, int):
                the_run.write_manifest({**the_run.manifest, "repetitions": repetitions})
    else:
        assert config is not None
        in_force, text = settings.load(config, given)
        lists.check(in_force.probe.blocklist, in_force.probe.optout)
        if dry_run:
            _print(preview.describe(in_force))
            check_before(every.before_campaign(in_force, may_send=False), dry_run=True)
            return
        every.check_names(in_force)
        check_before(every.before_campaign(in_force, may_send=True), dry_run=False)
        the_run = Run.create(in_force, text, given)
    terminal.echo(f"run {the_run.id}: {the_run.path}", err=True)
    try:
        status = lifecycle.run_campaign(the_run)
    finally:
        terminal.echo(the_run.id)
    sys.exit(status)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        terminal.echo(line)


def _toml(value: object) -> str:
    """Return a flag's value in the syntax of --set: numbers unchanged, text as a TOML string."""
    if isinstance(value, int | float):
        return str(value)
    return terminal.as_json(str(value))  # a JSON string is a TOML string too
