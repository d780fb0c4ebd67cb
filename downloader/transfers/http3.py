"""Checks with a HEAD request, before QUIC downloads, whether the address serves the file over HTTP/3.

Alt-Svc and the HTTPS record are promises about a name. This request checks the file at one address. The
promises are in the columns `alt_svc` and, in dns_answer, `https_alpn`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from downloader.clients.contract import ClientAnswer, Request
from downloader.option_sets import SETS, OptionSet
from downloader.results import outcome
from downloader.transfers.worker import Worker

HEAD = "head"
"""The name of the HEAD client's key log and message log."""


@dataclass(frozen=True)
class Capable:
    """Whether the file is available over HTTP/3. `why_not` is the reason if it is not."""

    why_not: str | None = None

    @property
    def is_so(self) -> bool:
        """Whether to make QUIC downloads."""
        return self.why_not is None


def judge(answer: ClientAnswer) -> Capable:
    """Evaluate an answer to the HEAD request. Only status 200 means that the file is available."""
    if answer.end != "complete":
        return Capable(f"no answer to HEAD over HTTP/3: {answer.detail or answer.end}")
    if answer.status != 200:
        mark = outcome.human_verification(answer)
        asks = "" if mark is None else f" with {mark}: the server asks for human verification"
        return Capable(f"HEAD over HTTP/3 brings status {answer.status}{asks}")
    return Capable()


class HeadClient(AbstractContextManager["HeadClient"]):
    """Context manager around the HEAD client, in the namespace for a QUIC set. It has Worker's arguments."""

    def __init__(
        self,
        folder: Path,
        lists: Sequence[str],
        inside: Callable[[Sequence[str]], list[str]],
        watch: Callable[[], None],
    ) -> None:
        self._worker = Worker(replace(SETS["quiche"], name=HEAD), folder, lists, inside, watch)

    def __enter__(self) -> Self:
        self._worker.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.__exit__(kind, error, trace)

    def ask(self, request: Request) -> Capable:
        """Request the header section of the file that `request` would download."""
        return judge(self._worker.download(replace(request, method="HEAD")))


def first_quic(sets: Sequence[OptionSet]) -> OptionSet | None:
    """Return the first set that uses QUIC; `None` if there is no such set."""
    return next((option_set for option_set in sets if option_set.is_quic), None)
