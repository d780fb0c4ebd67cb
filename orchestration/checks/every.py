"""Selects the checks: all for `firstflight doctor`, the relevant ones before a campaign."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from crawler.lists import own_list
from firstflight.errors import FirstflightError
from firstflight.settings import Settings, Vantage
from orchestration.checks import interface, machine, network, stored
from orchestration.checks.finding import CheckStatus, Finding


class NotReady(FirstflightError):
    """A check failed, so the campaign did not start; `exit_status` is from the first failed finding."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("\n".join(finding.sentence for finding in findings))
        self.exit_status = findings[0].exit_status


def of_doctor(settings: Settings, vantage: Vantage | None, *, centre: bool) -> Iterator[Finding]:
    """Yield all findings about this machine, as the given vantage point, as the centre, or as both.

    Without `centre`, the store is checked only if the environment names one.

    The store is the last check, because an embedded store confines this process permanently.
    """
    yield machine.files()
    yield machine.disk()
    yield machine.programs(settings)
    if vantage is not None:
        yield from _of_vantage(settings, vantage, is_new=True, may_send=True)
        yield machine.receive_buffer()
        yield interface.offloads(vantage)
    yield network.ntp_state(settings)
    if (compared := network.reference(settings, may_send=True)) is not None:
        yield compared
    yield stored.rules(settings)
    if not centre:
        yield stored.ceilings()
    if centre or stored.is_named():
        yield stored.contents(settings)


def before_campaign(settings: Settings, *, may_send: bool, is_new: bool = True) -> Iterator[Finding]:
    """Yield the findings that matter before a campaign's first fetch, of the parts on this machine.

    `may_send` False: for a dry run. `is_new` False: the run is resumed, and its ports may belong to an engine
    that its stage waits for.
    """
    yield machine.files()
    yield machine.disk()
    yield machine.programs(settings)
    yield network.ntp_state(settings)
    yield stored.rules(settings)
    yield stored.load_target(settings, may_send=may_send)
    for vantage in settings.vantage:
        if not vantage.command:
            yield from _of_vantage(settings, vantage, is_new=is_new, may_send=may_send)


def of_remote(settings: Settings, vantage: Vantage, *, is_new: bool) -> Iterator[Finding]:
    """Yield the findings that matter before a campaign, on a remote vantage point's machine."""
    yield machine.files()
    yield from _of_vantage(settings, vantage, is_new=is_new, may_send=True)


def check(findings: Iterable[Finding], say: Callable[[str], None]) -> None:
    """Pass warnings to `say`; raise NotReady with all failed findings, if any."""
    wrong = []
    for finding in findings:
        if finding.state is CheckStatus.WARNING:
            say(str(finding))
        elif finding.state is CheckStatus.FAILED:
            wrong.append(finding)
    if wrong:
        raise NotReady(wrong)


def check_names(settings: Settings) -> None:
    """Raise InputError for a user's list without a name, before other inputs are fetched."""
    if settings.targets.file is not None:
        own_list.check(settings.targets.file)


def _of_vantage(settings: Settings, vantage: Vantage, *, is_new: bool, may_send: bool) -> Iterator[Finding]:
    yield interface.capturing(settings, vantage)
    yield interface.stamps(vantage)
    if is_new:
        yield machine.ports(settings, vantage)
    for finding in (machine.forwarding(settings), machine.zmap(settings, vantage)):
        if finding is not None:
            yield finding
    yield network.resolver(settings, may_send=may_send)
