"""HTTPS for lists and routing tables: limits of time and size, retries, optional CA bundle."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import InvalidHeader
from urllib3.util.retry import Retry

from firstflight.egress.user_agent import user_agent
from firstflight.errors import FirstflightError
from firstflight.system import files, from_outside
from firstflight.system.reporting.progress import Progress

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
RETRIES = 3
MAX_RETRY_AFTER_S = 60
_CHUNK_BYTES = 1 << 20
# Size limits for a page, a list (a million names have 25 MB) and a routing table (150 MB).
MAX_PAGE_BYTES, MAX_LIST_BYTES, MAX_TABLE_BYTES = 16 << 20, 256 << 20, 2 << 30
# Time limit for a whole body.
MAX_BODY_S = 3600.0


class FetchError(FirstflightError):
    """A host is unreachable, or did not return the requested file (exit 1)."""


class Session(requests.Session):
    """A requests session with time limits and retries. `ca_bundle` takes precedence over the environment's.

    Each request has the User-Agent `firstflight/VERSION (CONTACT)`. `shown_in`: a folder for the progress of
    each body.
    """

    def __init__(self, ca_bundle: Path | None, contact: str = "", shown_in: Path | None = None) -> None:
        super().__init__()
        self.ca_bundle = ca_bundle
        self._shown_in = shown_in
        self.headers["User-Agent"] = user_agent(contact)
        retry = _Retry(
            total=RETRIES,
            retry_after_max=MAX_RETRY_AFTER_S,
            other=0,  # retrying does not make a certificate trusted
            backoff_factor=0.5,
            status_forcelist=(429, 500, 503, 504),
            allowed_methods=("GET",),
            raise_on_status=False,
        )
        self.mount("https://", HTTPAdapter(max_retries=retry))
        self.adapters.pop("http://")  # also blocks redirects to http
        # Needed for packages that take every status except 200 for a missing list.
        self.hooks["response"].append(_refuse_server_error)
        # Applies before any body is read, also for redirections.
        self.hooks["response"].append(self._limit)
        self.max_bytes = MAX_LIST_BYTES

    @contextmanager
    def at_most(self, max_bytes: int) -> Iterator[None]:
        """Limit bodies to `max_bytes` within the block, after HTTP content decoding."""
        previous, self.max_bytes = self.max_bytes, max_bytes
        try:
            yield
        finally:
            self.max_bytes = previous

    def _limit(self, response: requests.Response, *_: Any, **__: Any) -> None:
        response.raw = _Limited(response.raw, self.max_bytes, self._shown_in)

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request as requests does, but always with a time limit."""
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
        return super().request(*args, **kwargs)

    def merge_environment_settings(  # type: ignore[override]
        self, url: str, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Mapping[str, Any]:
        """Merge settings as requests does, but do not let REQUESTS_CA_BUNDLE replace a chosen bundle."""
        merged = dict(super().merge_environment_settings(url, proxies, stream, verify, cert))
        if self.ca_bundle is not None:
            merged["verify"] = str(self.ca_bundle)
        return merged


class _Retry(Retry):
    """Waits before the next attempt for as long as the host requests, up to `retry_after_max`."""

    def parse_retry_after(self, retry_after: str) -> float:
        """Return the seconds in a Retry-After field; 0 if it is invalid."""
        try:
            return super().parse_retry_after(retry_after)
        except (InvalidHeader, ValueError, OverflowError):
            return 0.0


class _Limited:
    """urllib3's response with limits on size and duration of the body."""

    def __init__(self, raw: Any, max_bytes: int, shown_in: Path | None) -> None:
        self._raw = raw
        self._shown_in = shown_in
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._until = time.monotonic() + MAX_BODY_S

    def stream(self, amount: int, decode_content: bool | None = None) -> Iterator[bytes]:
        """Yield the body like urllib3's `stream`, with which requests reads every body."""
        pieces = self._pieces(amount, decode_content)
        if self._shown_in is None:
            yield from pieces
            return
        length = from_outside.content_length(self._raw.headers.get("Content-Length", ""))
        total = None if length is None else round(length / 1e6)
        done = 0
        with Progress(self._shown_in, "fetch, MB", total, lambda: "the host or the network") as progress:
            for piece in pieces:
                done += len(piece)
                progress.update(round(done / 1e6))
                yield piece

    def _pieces(self, amount: int, decode_content: bool | None) -> Iterator[bytes]:
        # Returns any received data at once. `stream` would wait for a whole piece, beyond any limit.
        while piece := self._raw.read1(min(amount, 1 << 16), decode_content=decode_content):
            self._left -= len(piece)
            if self._left < 0:
                raise self._closed(requests.RequestException(f"it has more than {self._max_bytes} bytes"))
            if time.monotonic() > self._until:
                raise self._closed(requests.Timeout(f"it was not complete within {MAX_BODY_S:.0f} s"))
            yield piece

    def _closed(self, reason: requests.RequestException) -> requests.RequestException:
        """Close the connection, on which the host is still sending, and return the reason."""
        self._raw.close()
        return reason

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def _refuse_server_error(response: requests.Response, *_: Any, **__: Any) -> None:
    if response.status_code >= 500:
        raise requests.HTTPError(_status_text(response))


def _status_text(response: requests.Response) -> str:
    """Return the status of an answer as text, with the Retry-After field."""
    value = response.headers.get("Retry-After", "")[:40]
    retry_after = f", with Retry-After: {value}" if value and value.isprintable() else ""
    return f"the host answered {response.status_code} {response.reason}{retry_after}"


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn exceptions of requests in the block into a FetchError with file, reason and remedy."""
    try:
        yield
    except requests.exceptions.SSLError as error:
        raise FetchError(
            f"cannot fetch {what}: the host's certificate is not trusted ({_root_cause(error)}); "
            "if it is signed by a private authority, name its file as [network] ca_bundle"
        ) from error
    except requests.exceptions.Timeout as error:
        raise FetchError(f"cannot fetch {what}: no answer in time; try again later") from error
    except requests.exceptions.ConnectionError as error:
        raise FetchError(
            f"cannot fetch {what}: {_root_cause(error)}; is there a way to that host?"
        ) from error
    except requests.exceptions.RequestException as error:
        raise FetchError(f"cannot fetch {what}: {_root_cause(error)}") from error


def get_text(session: Session, url: str) -> str:
    """Return the body at `url` as text. Raise FetchError unless the status is 200."""
    with explained(url), session.at_most(MAX_PAGE_BYTES):
        response = session.get(url)
        if response.status_code != 200:
            raise FetchError(f"cannot fetch {url}: {_status_text(response)}")
        return response.text


def download(session: Session, url: str, path: Path, max_bytes: int = MAX_LIST_BYTES) -> None:
    """Write the body at `url` to `path` atomically. FetchError if it is truncated or exceeds `max_bytes`."""
    with (
        session.at_most(max_bytes),
        files.replacing(path) as part,
        explained(url),
        # identity: store the host's file byte by byte. urllib3 checks the length.
        session.get(url, stream=True, headers={"Accept-Encoding": "identity"}) as response,
        part.open("wb") as out,
    ):
        if response.status_code != 200:
            raise FetchError(f"cannot fetch {url}: {_status_text(response)}")
        if (
            len(response.headers.get("Content-Length", "")) > from_outside.DIGITS
        ):  # urllib3 cannot check such a length
            raise FetchError(f"cannot fetch {url}: its Content-Length is longer than that of any file")
        for chunk in response.iter_content(_CHUNK_BYTES):
            out.write(chunk)


def _root_cause(error: BaseException) -> str:
    """Return the message of the innermost cause, which requests and urllib3 wrap several times."""
    cause: BaseException = error
    while True:
        reason = getattr(cause, "reason", None)
        inner = cause.__cause__ or (reason if isinstance(reason, BaseException) else None)
        if inner is None and cause.args and isinstance(cause.args[0], BaseException):
            inner = cause.args[0]
        if inner is None or inner is cause:
            break
        cause = inner
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return " ".join(str(text).split())
