"""HTTPS for lists and routing tables: limits of time and size, retries, a CA bundle of the user's choice."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from firstflight.errors import FirstflightError
from firstflight.system import files

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
RETRIES = 3
_CHUNK_BYTES = 1 << 20
# A page, a list (a million names have 25 MB), a routing table (150 MB): what is larger is none.
MAX_PAGE_BYTES, MAX_LIST_BYTES, MAX_TABLE_BYTES = 16 << 20, 256 << 20, 2 << 30
# For a whole body, however slowly it comes.
MAX_BODY_S = 3600.0


class FetchError(FirstflightError):
    """A host could not be reached, or did not give what was asked for (exit 1)."""


class Session(requests.Session):
    """A requests session with time limits and retries; `ca_bundle` wins over the environment's.

    Every request says who asks: `firstflight/VERSION (CONTACT)`.
    """

    def __init__(self, ca_bundle: Path | None, contact: str = "") -> None:
        super().__init__()
        self.ca_bundle = ca_bundle
        # A header field holds no line ends, and only ASCII is understood everywhere (RFC 9110 5.5).
        who = " ".join(contact.split()).encode("ascii", "replace").decode("ascii")
        self.headers["User-Agent"] = f"firstflight/{version('firstflight')}" + (f" ({who})" if who else "")
        retry = Retry(
            total=RETRIES,
            other=0,  # a certificate does not become trusted by trying again
            backoff_factor=0.5,
            status_forcelist=(429, 500, 503, 504),
            allowed_methods=("GET",),
            raise_on_status=False,
        )
        self.mount("https://", HTTPAdapter(max_retries=retry))
        # For packages that take any status but 200 for "there is no such list".
        self.hooks["response"].append(_refuse_server_error)
        # Before anything of a body is read, those of redirections included.
        self.hooks["response"].append(self._limit)
        self.max_bytes = MAX_LIST_BYTES

    @contextmanager
    def at_most(self, max_bytes: int) -> Iterator[None]:
        """Bodies may have so many bytes within the block, decompressed as HTTP says."""
        before, self.max_bytes = self.max_bytes, max_bytes
        try:
            yield
        finally:
            self.max_bytes = before

    def _limit(self, response: requests.Response, *_: Any, **__: Any) -> None:
        response.raw = _Limited(response.raw, self.max_bytes)

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """As requests', but never without a time limit."""
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
        return super().request(*args, **kwargs)

    def merge_environment_settings(  # type: ignore[override]
        self, url: str, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Mapping[str, Any]:
        """As requests', but REQUESTS_CA_BUNDLE of the environment does not replace a chosen bundle."""
        merged = dict(super().merge_environment_settings(url, proxies, stream, verify, cert))
        if self.ca_bundle is not None:
            merged["verify"] = str(self.ca_bundle)
        return merged


class _Limited:
    """urllib3's answer, of which no more is read than it may have, and for no longer than it may take."""

    def __init__(self, raw: Any, max_bytes: int) -> None:
        self._raw = raw
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._until = time.monotonic() + MAX_BODY_S

    def stream(self, amount: int, decode_content: bool | None = None) -> Iterator[bytes]:
        """As urllib3's; this is how requests reads every body."""
        for piece in self._raw.stream(min(amount, 1 << 16), decode_content=decode_content):
            self._left -= len(piece)
            if self._left < 0:
                raise requests.RequestException(f"it has more than {self._max_bytes} bytes")
            if time.monotonic() > self._until:
                raise requests.Timeout(f"it did not come within {MAX_BODY_S:.0f} s")
            yield piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def _refuse_server_error(response: requests.Response, *_: Any, **__: Any) -> None:
    if response.status_code >= 500:
        raise requests.HTTPError(f"the host answered {response.status_code} {response.reason}")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what requests raises inside the block into a FetchError: what was fetched, why not, what to do."""
    try:
        yield
    except requests.exceptions.SSLError as error:
        raise FetchError(
            f"cannot fetch {what}: the host's certificate is not trusted ({_root(error)}); "
            "if it is signed by a private authority, name its file as [network] ca_bundle"
        ) from error
    except requests.exceptions.Timeout as error:
        raise FetchError(f"cannot fetch {what}: no answer in time; try again later") from error
    except requests.exceptions.ConnectionError as error:
        raise FetchError(f"cannot fetch {what}: {_root(error)}; is there a way to that host?") from error
    except requests.exceptions.RequestException as error:
        raise FetchError(f"cannot fetch {what}: {_root(error)}") from error


def get_text(session: Session, url: str) -> str:
    """The body at `url` as text; FetchError unless the status is 200."""
    with explained(url), session.at_most(MAX_PAGE_BYTES):
        response = session.get(url)
        if response.status_code != 200:
            raise FetchError(
                f"cannot fetch {url}: the host answered {response.status_code} {response.reason}"
            )
        return response.text


def download(session: Session, url: str, path: Path, max_bytes: int = MAX_LIST_BYTES) -> None:
    """Write the body at `url` to `path` in one step: a download that is cut, or longer than `max_bytes`,
    leaves nothing behind."""
    with (
        session.at_most(max_bytes),
        files.replacing(path) as part,
        explained(url),
        # identity: what is stored is the file that the host has, byte by byte. urllib3 checks its length.
        session.get(url, stream=True, headers={"Accept-Encoding": "identity"}) as response,
        part.open("wb") as out,
    ):
        if response.status_code != 200:
            raise FetchError(
                f"cannot fetch {url}: the host answered {response.status_code} {response.reason}"
            )
        for chunk in response.iter_content(_CHUNK_BYTES):
            out.write(chunk)


def _root(error: BaseException) -> str:
    """The innermost cause, in words: requests and urllib3 wrap it several times."""
    seen: BaseException = error
    while True:
        reason = getattr(seen, "reason", None)
        inner = seen.__cause__ or (reason if isinstance(reason, BaseException) else None)
        if inner is None and seen.args and isinstance(seen.args[0], BaseException):
            inner = seen.args[0]
        if inner is None or inner is seen:
            break
        seen = inner
    text = getattr(seen, "strerror", None) or str(seen) or type(seen).__name__
    return " ".join(str(text).split())
