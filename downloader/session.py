"""One vantage point's downloads: a namespace, a capture and a client for each set, one download at a time.

A run is all downloads of one name and address: the warm-up, if a set is of QUIC a HEAD request for the file
over HTTP/3, then each set in an order drawn for the run, those of QUIC only if that request succeeded. What
a client answers is appended to ANSWERS at once; what the captures say comes when they are closed (rows.py).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import certifi

from downloader import http3, outcome
from downloader.clients import shared
from downloader.clients.contract import Answer, Request
from downloader.http3 import Asker, Capable
from downloader.option_sets import WARMUP, OptionSet
from downloader.targets import Target
from downloader.worker import Worker
from firstflight import capture, capture_files
from firstflight.egress import lab
from firstflight.egress.current import Trust
from firstflight.egress.permitted import own_networks
from firstflight.egress.user_agent import user_agent
from firstflight.errors import InputError
from firstflight.system.netns import Masqueraded

ANSWERS = "answers.jsonl"
BUFFER_KIB = 16_384
DRAIN_S = 1.1
# Headers and options of TCP; of QUIC all, which alone can be opened with the keys.
SNAPLEN = {"tcp": 128, "udp": 65_535}
# What a download may take from the network, for each byte of the body that it may have and besides: headers,
# TLS, and packets that are sent again take some 10 %.
_WIRE_SHARE, _WIRE_BESIDES = 2, 1 << 20
# What a download may take of its capture, for each byte of that: our packets are there as well.
_CAPTURE_SHARE = 2
# And what the capture of a set may have besides, for handshakes and packets that come late.
_CAPTURE_BESIDES = 16 << 20


class Withdrawn(Exception):
    """The download that is under way may not go on; the message says why."""


class CaptureFull(Withdrawn):
    """Its packets take more of the capture than those of one download may."""


@dataclass(frozen=True)
class Limits:
    """What every download of every set keeps to, the same for all."""

    timeout_s: float = 45.0
    max_bytes: int = 10 << 20
    pause_s: float = 1.0
    fixed_order: bool = False
    contact: str = ""
    roots: Path | None = None

    @property
    def max_wire_bytes(self) -> int:
        """The most bytes that may arrive from the network for one download."""
        return _WIRE_SHARE * self.max_bytes + _WIRE_BESIDES

    @property
    def max_capture_bytes(self) -> int:
        """The most bytes that one download may take of its capture."""
        return _CAPTURE_SHARE * self.max_wire_bytes


def order(sets: Sequence[OptionSet], seed: int, target: Target, fixed: bool) -> list[OptionSet]:
    """Return the sets of a run in their order: the warm-up, then the others as drawn, or as given."""
    first, *others = sets
    if not fixed:
        random.Random(f"{seed} {target.domain} {target.ip}").shuffle(others)
    return [first, *others]


class Session:
    """Context manager around namespaces, captures and clients of all sets, which last as long as it.

    `targets`: how many will be downloaded at most, which limits the size of each capture;
    `lists`: KIND=VALUE of the lists in force, as the clients take them; `watch` is called often and raises to
    stop. UsageError if a namespace or a client cannot be started.
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
        self.captures: dict[str, capture.Capture] = {}
        self._asker: Asker | None = None
        # A client's namespace does not know this one's addresses, which a packet from there would reach
        # behind the machine's firewall.
        self._lists = [*lists, *(f"own={network}" for network in own_networks())]
        self._limits = limits
        self._watch = watch
        self._permitted = shared.permitted(lists)
        self._target: Target | None = None
        self._targets = targets
        self._capture: capture.Capture | None = None
        self._most = 0  # bytes of that capture
        self._stack = ExitStack()
        self._free_at = 0.0

    def __enter__(self) -> Self:
        mark = lab.MARK if lab.is_lab() else ""
        with ExitStack() as stack:
            for place, one in enumerate(self.sets):
                inside = stack.enter_context(Masqueraded(place, one.sysctls(), mark=mark))
                taken = capture.Capture(
                    capture_files.next_path(self.folder, one.name),
                    Masqueraded.interface,
                    one.protocol,
                    snaplen=SNAPLEN[one.protocol],
                    buffer_kib=BUFFER_KIB,
                    drain_s=DRAIN_S if place == len(self.sets) - 1 else 0.0,
                    # Of each target a HEAD request as well.
                    max_bytes=_CAPTURE_BESIDES + 2 * self._targets * self._limits.max_capture_bytes,
                    prefix=inside.inside([]),
                )
                self.captures[one.name] = stack.enter_context(taken)
                worker = Worker(one, self.folder, self._lists, inside.inside, self._look)
                self.workers[one.name] = stack.enter_context(worker)
                if one == http3.first_quic(self.sets):
                    asker = Asker(self.folder, self._lists, inside.inside, self._look)
                    self._asker = stack.enter_context(asker)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def run(self, target: Target, seed: int, keep: Callable[[dict[str, Any]], None]) -> None:
        """Do all downloads of one target; `keep` gets the entry of each (`entry`) as soon as it is over.

        If it is stopped, `keep` gets those that are left as `skipped`: a run is never continued later, when
        caches and load are others.
        """
        why = "" if target.ip else "no_address"
        capable: Capable | None = None
        done: set[str] = set()
        chosen = order(self.sets, seed, target, self._limits.fixed_order)
        try:
            for position, one in enumerate(chosen):
                answer = None
                if not why and position == 1:
                    capable = self._ask(target)
                without_quic = capable is not None and not capable.is_so and one.protocol == "udp"
                if not why and not without_quic:
                    self.ready()
                    self.captures[one.name].check()
                    answer = self._answer(self.workers[one.name], target, one)
                    first = outcome.of(answer, None, one, None)
                    if one.name == WARMUP and first not in outcome.SUCCESSFUL:
                        why = "skipped"
                    if answer.end == "blocked":
                        why = "blocked"
                ended = why or ("skipped" if without_quic else "")
                version_used = self.workers[one.name].version
                keep(entry(target, one, position, answer, ended, version_used, capable))
                done.add(one.name)
        except BaseException:
            for position, one in enumerate(chosen):
                if one.name not in done:
                    keep(entry(target, one, position, None, why or "skipped", "", capable))
            raise

    def _ask(self, target: Target) -> Capable | None:
        """Return whether the file is there over HTTP/3; None if that was not asked, or not to the end."""
        one = http3.first_quic(self.sets)
        if one is None or self._asker is None:
            return None
        self.ready()
        # What is refused here, the downloads that follow are as well.
        if self._guard(target) is not None:
            return None
        try:
            self._watch_capture(one)
            return self._asker.ask(self._request(target, one))
        except Withdrawn:
            return None
        finally:
            self._over()

    def _answer(self, worker: Worker, target: Target, one: OptionSet) -> Answer:
        """Return the answer of a client, which is ended if its target may no longer be contacted."""
        started_at = time.time_ns()
        if (why := self._guard(target)) is not None:
            return Answer("blocked", detail=why)
        try:
            self._watch_capture(one)
            return worker.download(self._request(target, one))
        except CaptureFull as error:
            return Answer("wire_limit", detail=str(error), started_at=started_at)
        except Withdrawn as error:
            return Answer("failed", detail=f"broken off: {error}", started_at=started_at)
        finally:
            self._over()

    def _guard(self, target: Target) -> str | None:
        """Watch over a download that begins; return why it may not, if so: no client is asked then.

        A client looks at its lists itself. One that was started again may not remember what was on them.
        """
        why = self._permitted.why_not(target.ip, target.host)
        self._target = target if why is None else None
        return why

    def _watch_capture(self, one: OptionSet) -> None:
        self._capture = self.captures[one.name]
        self._most = self._capture.size() + self._limits.max_capture_bytes

    def _over(self) -> None:
        self._target = self._capture = None
        self._free_at = time.monotonic() + self._limits.pause_s

    def _look(self) -> None:
        """Raise to stop; Withdrawn if the owner of the target has opted out, or if that is not known."""
        self._watch()
        if self._capture is not None and self._capture.size() > self._most:
            raise CaptureFull("its packets take more of the capture than those of one download may")
        if self._target is None:
            return
        if self._permitted.look() == Trust.NONE:
            raise Withdrawn(shared.UNCONFIRMED)
        why = self._permitted.why_not(self._target.ip, self._target.host)
        if why is not None:
            raise Withdrawn(why)

    def ready(self) -> None:
        """Keep the pause to the request before, if there was one; wait while the lists are not confirmed."""
        while (left := self._free_at - time.monotonic()) > 0:
            self._watch()
            time.sleep(min(left, 0.1))
        while self._permitted.look() < Trust.ALL:
            self._watch()
            time.sleep(0.1)

    def _request(self, target: Target, one: OptionSet) -> Request:
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
            window_clamp=one.window_clamp,
            http=one.http,
        )


def entry(
    target: Target,
    one: OptionSet,
    position: int,
    answer: Answer | None,
    why: str,
    client_version: str,
    capable: Capable | None = None,
) -> dict[str, Any]:
    """Return the line of ANSWERS for one download; `why`: its outcome if nothing was sent.

    `capable`: whether the file is there over HTTP/3, None if that was not asked.
    """
    return {
        "line": target.line,
        "url": target.url,
        "domain": target.domain,
        "ip": target.ip,
        "port": target.port,
        "set": one.name,
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
    """Return the entries that a session has kept in its folder; a last line that a kill cut is left out.

    InputError if another line is broken.
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
    """Return entries for downloads that a killed session owes, and the targets that it has not begun.

    Of a run that was begun, what is missing is `skipped`. InputError if an entry's target is not the one that
    the list has in its line now.
    """
    of: dict[int, set[str]] = {}
    capable: dict[int, Capable] = {}
    planned = {target.line: (target.url, target.domain, target.ip) for target in targets}
    for kept in entries:
        if planned.get(kept["line"]) != (kept["url"], kept["domain"], kept["ip"]):
            raise InputError(
                f"the list of files, or their addresses, has changed since the downloads began: line "
                f"{kept['line']} was {kept['url']} at {kept['ip'] or 'no address'}; put it back, or run the "
                "stage with --again"
            )
        of.setdefault(kept["line"], set()).add(kept["set"])
        if kept.get("quic_capable") is not None:
            capable[kept["line"]] = Capable(kept.get("no_quic"))
    owed = [
        entry(target, one, position, None, "skipped", "", capable.get(target.line))
        for target in targets
        if target.line in of
        for position, one in enumerate(order(sets, seed, target, fixed))
        if one.name not in of[target.line]
    ]
    return owed, [target for target in targets if target.line not in of]
