"""Downloads a list of files and returns rows. The command and the stage both use this module."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from downloader.files.targets import Target
from downloader.option_sets import OptionSet
from downloader.results import rows
from downloader.results.flows import Flows
from downloader.transfers import http3, session
from downloader.transfers.session import Limits
from firstflight.egress.permitted import Permitted
from firstflight.errors import UsageError
from firstflight.system.network import netns

Next = Callable[[], Target | float]
_LOOK_S = 0.1  # between two checks for a stop


def budget(targets: int, sets: Sequence[OptionSet], limits: Limits) -> str:
    """Return the maximum traffic and duration of downloads, as a sentence without a full stop."""
    downloads = targets * len(sets)
    head_requests = targets if http3.first_quic(sets) else 0
    hours = (downloads + head_requests) * (limits.timeout_s + limits.pause_s) / 3600
    mib = downloads * limits.max_bytes / 2**20
    return f"{targets} files, {len(sets)} downloads of each: at most {mib:.0f} MiB and {hours:.1f} hours"


def check(targets: Iterable[Target], permitted: Permitted, contact: str) -> None:
    """Raise UsageError if this machine cannot contact one of the targets. Sends no packet.

    A target that a list forbids raises no error: its row has the outcome `blocked`.
    """
    for target in targets:
        if not target.ip:
            continue
        ip = ipaddress.ip_address(target.ip)
        if not contact.strip() and permitted.address_needs_contact(target.ip):
            raise UsageError(f"a contact is needed: {ip} is not in an allowed network; nothing was sent")
        if ip.version == 6 and not netns.forwards(6):
            raise UsageError(
                f"{ip}: this machine does not forward IPv6, which namespaces with TCP settings need: "
                "sysctl net.ipv6.conf.all.forwarding=1, or name IPv4 addresses only; nothing was sent"
            )
        permitted.why_not(target.ip, target.domain)


def run(
    count: int,
    next_target: Next,
    sets: Sequence[OptionSet],
    folder: Path,
    lists: Sequence[str],
    limits: Limits,
    seed: int,
    watch: Callable[[], None],
    done: Callable[[Target], None],
) -> None:
    """Download `count` targets, one after the other. `next_target` returns the next target.

    `next_target` is called when a request may start, so no other work delays the download after the choice.
    If it returns a number, it is called again after that many seconds.

    `folder` keeps captures, key logs and answers. `watch` is called often, and raises to stop the downloads.
    `done` is called after each target. Session lists the errors.
    """
    with (
        session.Session(sets, folder, lists, limits, watch, count) as downloads,
        (folder / session.ANSWERS).open("ab") as file,
    ):

        def keep(entry: dict[str, Any]) -> None:
            file.write(session.as_line(entry))
            file.flush()

        while count:
            downloads.ready()
            target = next_target()
            watch()
            if isinstance(target, Target):
                downloads.run(target, seed, keep)
                done(target)
                count -= 1
            else:
                time.sleep(min(target, _LOOK_S))


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each entry in `folder`, with the values from its captures.

    Flows and rows.rows list the errors.
    """
    entries = session.read_answers(folder)
    captures = rows.captures(folder)
    yield from rows.rows(entries, Flows(captures, rows.key_logs(folder)), folder)
