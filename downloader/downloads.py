"""Does the downloads of a list and returns their rows: what the command and the stage share."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from downloader import http3, rows, session
from downloader.flows import Flows
from downloader.option_sets import OptionSet
from downloader.session import Limits
from downloader.targets import Target
from firstflight.egress.permitted import Permitted
from firstflight.errors import UsageError
from firstflight.system import netns

Next = Callable[[], Target | float]
_LOOK_S = 0.1  # whether the downloads are to end


def budget(targets: int, sets: Sequence[OptionSet], limits: Limits) -> str:
    """Return what downloads will take at most, as a sentence without its end."""
    downloads = targets * len(sets)
    asked = targets if http3.first_quic(sets) else 0
    hours = (downloads + asked) * (limits.timeout_s + limits.pause_s) / 3600
    mib = downloads * limits.max_bytes / 2**20
    return f"{targets} files, {len(sets)} downloads of each: at most {mib:.0f} MiB and {hours:.1f} hours"


def check(targets: Iterable[Target], permitted: Permitted, contact: str) -> None:
    """Raise UsageError if a target cannot be contacted from here at all; nothing was sent then.

    What the lists forbid becomes a row, `blocked`.
    """
    for target in targets:
        if not target.ip:
            continue
        ip = ipaddress.ip_address(target.ip)
        if not contact.strip() and permitted.needs_contact(int(ip), int(ip), ip.version):
            raise UsageError(f"a contact is needed: {ip} is in no network that is allowed; nothing was sent")
        if ip.version == 6 and not netns.forwards(6):
            raise UsageError(
                f"{ip}: this machine does not forward IPv6, which namespaces with TCP settings need: "
                "sysctl net.ipv6.conf.all.forwarding=1, or name IPv4 addresses only; nothing was sent"
            )
        permitted.why_not(target.ip, target.domain)


def run(
    count: int,
    following: Next,
    sets: Sequence[OptionSet],
    folder: Path,
    lists: Sequence[str],
    limits: Limits,
    seed: int,
    watch: Callable[[], None],
    done: Callable[[Target], None],
) -> None:
    """Download the `count` targets that `following` names, one after the other.

    It is asked when a request may begin, so that nothing but the download comes between its choice and that;
    a number are the seconds after which it is asked again.
    Captures, key logs and answers are kept in `folder`. `watch` is called often and raises to stop; `done` is
    called after each target. Errors as of Session.
    """
    with (
        session.Session(sets, folder, lists, limits, watch, count) as downloads,
        (folder / session.ANSWERS).open("ab") as kept,
    ):

        def keep(entry: dict[str, Any]) -> None:
            kept.write(session.as_line(entry))
            kept.flush()

        while count:
            downloads.ready()
            target = following()
            watch()
            if isinstance(target, Target):
                downloads.run(target, seed, keep)
                done(target)
                count -= 1
            else:
                time.sleep(min(target, _LOOK_S))


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each download that `folder` holds an entry of, with what its captures say.

    Errors as of Flows and rows.rows.
    """
    entries = session.read_answers(folder)
    captures = rows.captures(folder)
    yield from rows.rows(entries, Flows(captures, rows.key_logs(folder)), folder)
