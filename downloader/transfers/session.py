"""Downloads from a vantage point: a namespace, a capture and a client per set; one download at a time.

A run is all downloads from the same name and address. It starts with the warm-up. If there is a QUIC set, a
HEAD request for the file over HTTP/3 follows. Then the other sets follow, in a random order for the run. QUIC
sets run only if the HEAD request succeeded. The session appends each client's answer to ANSWERS immediately.
rows.py reads the captures after they are closed.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import certifi

from downloader import option_sets
from downloader.clients import shared
from downloader.clients.contract import ClientAnswer, Request
from downloader.files.targets import Resolved, Target
from downloader.option_sets import OptionSet
from downloader.results import outcome
from downloader.results.outcome import Unsent
from downloader.transfers import http3
from downloader.transfers.http3 import Capable, HeadClient
from downloader.transfers.worker import Worker
from firstflight import capture, capture_files
from firstflight.egress import lab
from firstflight.egress.current import Trust
from firstflight.egress.permitted import own_networks
from firstflight.egress.user_agent import user_agent
from firstflight.errors import InputError
from firstflight.system.network.netns import Masqueraded

ANSWERS = "answers.jsonl"
BUFFER_KIB = 16_384
DRAIN_S = 1.1
# TCP: headers and options. QUIC: whole packets, because truncated packets cannot be decrypted.
SNAPLEN = {"tcp": 128, "udp": 65_535}
# Limit of the bytes received for a download: _WIRE_SHARE bytes per byte of the body limit, plus
# _WIRE_BESIDES. Headers, TLS and retransmissions take about 10 %.
_WIRE_SHARE, _WIRE_BESIDES = 2, 1 << 20
# Capture limit per received byte of that limit. The capture also contains the packets that we send.
_CAPTURE_SHARE = 2
# Additional capture limit per set, for handshakes and late packets.
_CAPTURE_BESIDES = 16 << 20


class Withdrawn(Exception):
    """The current download must stop. The message is the reason."""


class CaptureFull(Withdrawn):
    """The download has exceeded its share of the capture."""


@dataclass(frozen=True)
class Limits:
    """Limits that apply to each download of every set."""

    timeout_s: float = 45.0
    max_bytes: int = 10 << 20
    pause_s: float = 1.0
    fixed_order: bool = False
    contact: str = ""
    roots: Path | None = None

    @property
    def max_wire_bytes(self) -> int:
        """The maximum number of bytes that may arrive from the network for one download."""
        return _WIRE_SHARE * self.max_bytes + _WIRE_BESIDES

    @property
    def max_capture_bytes(self) -> int:
        """The maximum number of bytes in the capture of a download."""
        return _CAPTURE_SHARE * self.max_wire_bytes


def order(sets: Sequence[OptionSet], seed: int, target: Target, fixed: bool) -> list[OptionSet]:
    """Return a run's sets in order: the warm-up, then the others shuffled, or as given if `fixed`.

    A run has the sets of its target set.
    """
    first, *others = option_sets.of_target_set(sets, target.target_set)
    if not fixed:
        # The address in the draw, which remains the same if the name is resolved again.
        random.Random(f"{seed} {target.domain} {target.drawn_ip}").shuffle(others)
    return [first, *others]


class Session:
    """Context manager for the namespaces, captures and clients of all sets.

    `targets`: the maximum number of downloaded targets, which limits the size of each capture. `lists`:
    KIND=VALUE of the lists in force, as arguments for clients. `watch` is called often, and raises to stop
    the session. Raise UsageError if a namespace or a client cannot be started.
    """

    def __init__(
        self,
        sets: Sequence[OptionSet],
        folder: Path,
        lists: Sequence[str],
        limits: Limits,
        watch: Callable[[], None],
        targets: int = 1,
    ) -> None:
        self.sets = list(sets)
        self.folder = folder
        self.workers: dict[str, Worker] = {}
        self.captures: dict[str, capture.TcpdumpCapture] = {}
        self._asker: HeadClient | None = None
        # A client's network namespace does not have the addresses of this one. A packet from there to such an
        # address would bypass the machine's firewall.
        self._lists = [*lists, *(f"own={network}" for network in own_networks())]
        self._limits = limits
        self._watch = watch
        self._permitted = shared.permitted(lists)
        self._target: Target | None = None
        self._targets = targets
        self._capture: capture.TcpdumpCapture | None = None
        self._max_capture_bytes = 0  # bytes of that capture
        self._stack = ExitStack()
        self._free_at = 0.0

    def __enter__(self) -> Self:
        mark = lab.MARK if lab.is_lab() else ""
        with ExitStack() as stack:
            for index, option_set in enumerate(self.sets):
                namespace = stack.enter_context(Masqueraded(index, option_set.sysctls(), mark=mark))
                new_capture = capture.TcpdumpCapture(
                    capture_files.next_path(self.folder, option_set.name),
                    Masqueraded.interface,
                    option_set.protocol,
                    snaplen=SNAPLEN[option_set.protocol],
                    buffer_kib=BUFFER_KIB,
                    drain_s=DRAIN_S if index == len(self.sets) - 1 else 0.0,
                    # Each target also gets a HEAD request.
                    max_bytes=_CAPTURE_BESIDES + 2 * self._targets * self._limits.max_capture_bytes,
                    prefix=namespace.inside([]),
                )
                self.captures[option_set.name] = stack.enter_context(new_capture)
                worker = Worker(option_set, self.folder, self._lists, namespace.inside, self._look)
                self.workers[option_set.name] = stack.enter_context(worker)
                if option_set == http3.first_quic(self.sets):
                    asker = HeadClient(self.folder, self._lists, namespace.inside, self._look)
                    self._asker = stack.enter_context(asker)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def run(self, target: Target, seed: int, keep: Callable[[dict[str, Any]], None]) -> None:
        """Do all downloads from `target`. `keep` receives each `entry` as soon as the download is complete.

        After a stop, `keep` receives the remaining downloads as `skipped`. A run is never resumed, because
        caches and load change.
        """
        unsent = None if target.ip else Unsent.NO_ADDRESS
        capable: Capable | None = None
        done: set[str] = set()
        chosen = order(self.sets, seed, target, self._limits.fixed_order)
        try:
            for position, option_set in enumerate(chosen):
                answer = None
                if unsent is None and position == 1 and http3.first_quic(chosen):
                    capable = self._ask(target)
                without_quic = capable is not None and not capable.is_so and option_set.is_quic
                why = Unsent.SKIPPED if unsent is None and without_quic else unsent
                if why is None:
                    self.ready()
                    self.captures[option_set.name].check()
                    answer = self._answer(self.workers[option_set.name], target, option_set)
                    unsent = outcome.of_rest(option_set, answer)
                version_used = self.workers[option_set.name].version
                keep(entry(target, option_set, position, answer, why, version_used, capable))
                done.add(option_set.name)
        except BaseException:
            for position, option_set in enumerate(chosen):
                if option_set.name not in done:
                    keep(entry(target, option_set, position, None, unsent or Unsent.SKIPPED, "", capable))
            raise

    def _ask(self, target: Target) -> Capable | None:
        """Return whether the file is available over HTTP/3; `None` without a complete HEAD request."""
        option_set = http3.first_quic(self.sets)
        if option_set is None or self._asker is None:
            return None
        self.ready()
        # If the lists refuse this request, they also refuse the following downloads.
        if self._guard(target) is not None:
            return None
        try:
            self._watch_capture(option_set)
            return self._asker.ask(self._request(target, option_set))
        except Withdrawn:
            return None
        finally:
            self._end_request()

    def _answer(self, worker: Worker, target: Target, option_set: OptionSet) -> ClientAnswer:
        """Return a client's answer. Stop the client if the target may no longer be contacted."""
        started_at = time.time_ns()
        if (why := self._guard(target)) is not None:
            return ClientAnswer("blocked", detail=why)
        try:
            self._watch_capture(option_set)
            return worker.download(self._request(target, option_set))
        except CaptureFull as error:
            return ClientAnswer("wire_limit", detail=str(error), started_at=started_at)
        except Withdrawn as error:
            return ClientAnswer("failed", detail=f"broken off: {error}", started_at=started_at)
        finally:
            self._end_request()

    def _guard(self, target: Target) -> str | None:
        """Watch a new download. Return why it may not start, if so; the client then gets no request.

        A client checks its lists too, but a restarted client may have lost earlier entries. A name that was
        resolved again may have an address that needs a contact.
        """
        why = self._permitted.why_not(target.ip, target.host)
        has_contact = bool(self._limits.contact.strip())
        if why is None and not has_contact and self._permitted.address_needs_contact(target.ip):
            why = "its address needs a contact"
        self._target = target if why is None else None
        return why

    def _watch_capture(self, option_set: OptionSet) -> None:
        self._capture = self.captures[option_set.name]
        self._max_capture_bytes = self._capture.size() + self._limits.max_capture_bytes

    def _end_request(self) -> None:
        self._target = self._capture = None
        self._free_at = time.monotonic() + self._limits.pause_s

    def _look(self) -> None:
        """Raise to stop. Raise Withdrawn if the target's owner has opted out, or without confirmed lists."""
        self._watch()
        if self._capture is not None and self._capture.size() > self._max_capture_bytes:
            raise CaptureFull("the download has exceeded its share of the capture")
        if self._target is None:
            return
        if self._permitted.look() == Trust.NONE:
            raise Withdrawn(shared.UNCONFIRMED)
        why = self._permitted.why_not(self._target.ip, self._target.host)
        if why is not None:
            raise Withdrawn(why)

    def ready(self) -> None:
        """Wait for the pause after the previous request, then until the lists are confirmed."""
        while (left := self._free_at - time.monotonic()) > 0:
            self._watch()
            time.sleep(min(left, 0.1))
        while self._permitted.look() < Trust.ALL:
            self._watch()
            time.sleep(0.1)

    def _request(self, target: Target, option_set: OptionSet) -> Request:
        limits = self._limits
        return Request(
            url=target.url,
            host=target.host,
            ip=target.ip,
            port=target.port,
            path=target.path,
            user_agent=user_agent(limits.contact),
            timeout_s=limits.timeout_s,
            max_bytes=limits.max_bytes,
            max_wire_bytes=limits.max_wire_bytes,
            roots=str(limits.roots or certifi.where()),
            window_clamp=option_set.window_clamp,
            http=option_set.http,
        )


def entry(
    target: Target,
    option_set: OptionSet,
    position: int,
    answer: ClientAnswer | None,
    why: Unsent | None,
    client_version: str,
    capable: Capable | None = None,
) -> dict[str, Any]:
    """Return the line of ANSWERS for one download. `why`: the outcome without an answer.

    `capable`: whether the file is available over HTTP/3; `None` without a HEAD request.
    """
    return {
        "line": target.line,
        "url": target.url,
        "domain": target.domain,
        "target_set": target.target_set,
        "ip": target.ip,
        "drawn_ip": target.drawn_ip,
        "resolved_at": None if target.resolved is None else target.resolved.at_ns,
        "resolved_status": None if target.resolved is None else target.resolved.status,
        "port": target.port,
        "set": option_set.name,
        "position": position,
        "why": why if answer is None else None,
        "client_version": client_version or None,
        "quic_capable": None if capable is None else capable.is_so,
        "no_quic": None if capable is None else capable.why_not,
        "answer": None if answer is None else asdict(answer),
    }


def as_line(entry: Mapping[str, Any]) -> bytes:
    """Return an entry as a line of ANSWERS."""
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def read_answers(folder: Path) -> list[dict[str, Any]]:
    """Return the entries in a session's folder, without a last line that a kill truncated.

    Raise InputError if another line is invalid.
    """
    path = folder / ANSWERS
    if not path.is_file():
        return []
    found: list[dict[str, Any]] = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            found.append(json.loads(line))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}; remove the line") from error
    return found


def unfinished(
    entries: Iterable[dict[str, Any]],
    targets: Sequence[Target],
    sets: Sequence[OptionSet],
    seed: int,
    fixed: bool,
) -> tuple[list[dict[str, Any]], list[Target]]:
    """Return the missing entries of interrupted runs, and the targets whose runs have not started.

    The missing entries are `skipped`. Raise InputError if an entry's target differs from the list's target on
    the same line.
    """
    done: dict[int, set[str]] = {}
    capable: dict[int, Capable] = {}
    planned = {target.line: target for target in targets}
    # As they were downloaded: with the address at that time.
    started: dict[int, Target] = {}
    for row in entries:
        target = planned.get(row["line"])
        if target is None or _identity(target) != (row["url"], row["domain"], row["drawn_ip"]):
            raise InputError(
                f"the list of files, or their addresses, has changed since the downloads began: line "
                f"{row['line']} was {row['url']} at {row['drawn_ip'] or 'no address'}; put it back, or run "
                "the stage with --again"
            )
        started[target.line] = _as_downloaded(target, row)
        done.setdefault(target.line, set()).add(row["set"])
        if row.get("quic_capable") is not None:
            capable[target.line] = Capable(row.get("no_quic"))
    missing = [
        entry(target, option_set, position, None, Unsent.SKIPPED, "", capable.get(target.line))
        for target in (started[target.line] for target in targets if target.line in done)
        for position, option_set in enumerate(order(sets, seed, target, fixed))
        if option_set.name not in done[target.line]
    ]
    return missing, [target for target in targets if target.line not in done]


def _identity(target: Target) -> tuple[str, str, str]:
    return target.url, target.domain, target.drawn_ip


def _as_downloaded(target: Target, row: Mapping[str, Any]) -> Target:
    """Return a planned target with the address and the resolution of its entry."""
    if row["resolved_at"] is None:
        return target
    resolved = Resolved(row["drawn_ip"], row["resolved_at"], row["resolved_status"])
    return replace(target, ip=row["ip"], resolved=resolved)
