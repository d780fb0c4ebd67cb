"""`firstflight doctor`: checks a machine before it measures, and suggests cures."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstflight.errors import UsageError
from firstflight.system import terminal

if TYPE_CHECKING:
    from firstflight.run.run import Run
    from firstflight.settings import Settings, Vantage
    from orchestration.checks.finding import Finding

_HERE = "here"


@click.command(
    epilog="Example: firstflight doctor --vantage --contact you@example.org\n\n"
    "Example: firstflight doctor --config campaign.toml"
)
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings (TOML) to check for."
)
@click.option("--run", "run_name", metavar="RUN", help="Check for a vantage point of this run.")
@click.option(
    "--vantage",
    is_flag=False,
    flag_value=_HERE,
    metavar="[NAME]",
    help="Check as a vantage point: no store, unless the environment names one. NAME: one in FILE or RUN.",
)
@click.option(
    "--contact",
    default="",
    metavar="TEXT",
    help="How operators can reach you; allows a query to the resolver.",
)
@click.option(
    "--allow-net",
    "allow",
    multiple=True,
    metavar="CIDR",
    help="Private or lab network with a resolver that may be queried without --contact (repeatable).",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Any setting; needs --config."
)
@click.option(
    "--here",
    is_flag=True,
    help="Check this machine; ignore the command of the vantage point (set by the campaign).",
)
def command(
    config: Path | None,
    run_name: str | None,
    vantage: str | None,
    contact: str,
    allow: tuple[str, ...],
    overrides: tuple[str, ...],
    here: bool,
) -> None:
    """Check this machine before it measures. Print one line per check, and how to fix failures.

    The command contacts only the resolver (with a contact, or in a network of --allow-net), clock.reference
    and the store, if the settings name them. Exit 1: a check failed, so a campaign would not start.
    """
    from firstflight import settings
    from firstflight.run.run import Run
    from orchestration.checks import every

    if config is not None and run_name is not None:
        raise UsageError("--config and --run exclude each other: give one of them")
    if config is None and overrides:
        raise UsageError("--set changes a setting of --config FILE: give both, or neither")
    if run_name is not None:
        run = Run.open(run_name)
        findings: Iterable[Finding] = _of_run(run, vantage, here=here)
    else:
        if config is None:
            in_force = _defaults(contact, allow)
        else:
            given = [f"campaign.contact={terminal.as_json(contact)}"] if contact else []
            given += [f"probe.allow_net={terminal.as_json(list(allow))}"] if allow else []
            in_force = settings.load(config, [*given, *overrides])[0]
        chosen = _chosen(in_force, vantage, config)
        if chosen is not None and chosen.command and not here:
            raise UsageError(
                f"{chosen.name} is on another machine: run `firstflight doctor --vantage` there, or start "
                "the campaign, which checks it"
            )
        findings = every.of_doctor(in_force, chosen, centre=vantage is None)
    if show_findings(findings):
        sys.exit(1)


def show_findings(findings: Iterable[Finding]) -> bool:
    """Print each finding immediately; return whether a check failed."""
    from orchestration.checks.finding import CheckStatus

    has_failed = False
    for finding in findings:
        terminal.echo(str(finding))
        has_failed = has_failed or finding.state is CheckStatus.FAILED
    return has_failed


def check_before(findings: Iterable[Finding], *, dry_run: bool) -> None:
    """Print all findings for a dry run, else warnings on standard error; NotReady if one failed."""
    from orchestration.checks import every

    if dry_run:
        show_findings(findings)
    else:
        every.check(findings, lambda text: terminal.echo(text, err=True))


def _of_run(run: Run, vantage: str | None, *, here: bool) -> Iterable[Finding]:
    """Return the findings about a vantage point of a run, on the machine that it is on."""
    from orchestration import runner
    from orchestration.checks import every

    if vantage is None:
        raise UsageError("--run needs --vantage NAME")
    chosen = run.settings.vantage_named(vantage)
    if chosen.command and not here:
        status = runner.run_in_terminal(runner.doctor_argv(chosen, run.path))
        sys.exit(status if status >= 0 else 1)
    return every.of_remote(run.settings, chosen, is_new=not any(run.reports()))


def _chosen(in_force: Settings, vantage: str | None, config: Path | None) -> Vantage | None:
    """Return the vantage point for this machine: the named one, or the only local one.

    `None`: this machine is only the centre, because all vantage points have commands.
    """
    if vantage is not None and (vantage != _HERE or any(v.name == _HERE for v in in_force.vantage)):
        return in_force.vantage_named(vantage)
    local = [point for point in in_force.vantage if not point.command]
    names = ", ".join(point.name for point in local or in_force.vantage)
    if len(local) > 1:
        raise UsageError(f"{config} has several vantage points ({names}): give --vantage NAME")
    if vantage is not None and not local:
        raise UsageError(
            f"{config} has no vantage point on this machine, but {names} on others: run `firstflight doctor "
            "--vantage` there, or start the campaign, which checks them"
        )
    return local[0] if local else None


def _defaults(contact: str, allow: tuple[str, ...]) -> Settings:
    """Return the default settings of a campaign, without lists and tables."""
    from pydantic import ValidationError

    from firstflight.settings import Settings, Vantage, fault_message
    from firstflight.settings.sections import Campaign
    from firstflight.settings.sending import Probe

    try:
        campaign, probe = Campaign(contact=contact), Probe(allow_net=allow)
    except ValidationError as error:
        raise UsageError(
            "\n".join(fault_message("doctor", fault, Settings) for fault in error.errors())
        ) from error
    return Settings.model_construct(campaign=campaign, probe=probe, vantage=(Vantage(name=_HERE),))
