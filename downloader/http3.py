"""Whether a file is there over HTTP/3: a HEAD request for it at the very address, before QUIC downloads.

Alt-Svc and the HTTPS record are promises about a name; this is the file at the address (the columns `alt_svc`
and, of dns_answer, `https_alpn` keep the promises).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from downloader.clients.contract import Answer, Request
from downloader.option_sets import SETS, OptionSet
from downloader.worker import Worker

HEAD = "head"
"""The name of its key log and its messages."""


@dataclass(frozen=True)
class Capable:
    """Whether the file is there over HTTP/3; `why_not` says why it is not."""

    why_not: str | None = None

    @property
    def is_so(self) -> bool:
        """Whether QUIC downloads are to be made."""
        return self.why_not is None


def judge(answer: Answer) -> Capable:
    """Return what an answer to the HEAD request says: status 200, and nothing else, promises the file."""
    if answer.end != "complete":
        return Capable(f"no answer to HEAD over HTTP/3: {answer.detail or answer.end}")
    if answer.status != 200:
        return Capable(f"HEAD over HTTP/3 brings status {answer.status}")
    return Capable()


class Asker(AbstractContextManager["Asker"]):
    """Context manager around the client that asks, in the namespace of a QUIC set; arguments as of Worker."""

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
        """Ask for the header section of the file that `request` would download."""
        return judge(self._worker.download(replace(request, method="HEAD")))


def first_quic(sets: Sequence[OptionSet]) -> OptionSet | None:
    """Return the first set that downloads over QUIC; None if no set does."""
    return next((one for one in sets if one.protocol == "udp"), None)
