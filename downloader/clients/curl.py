"""The download client for TCP sets and for libcurl's HTTP/3: a worker around libcurl (contract.py).

It runs inside a set's network namespace: `python -m downloader.clients.curl`. It checks the lists when it
opens the socket, against the address that libcurl is about to contact.
"""

from __future__ import annotations

import math
import os
import select
import socket
import sys
import time
from collections.abc import Iterable
from typing import Any

import pycurl

from downloader.clients import shared
from downloader.clients.contract import KEPT_HEADERS, MOST_OF_A_HEADER, ClientAnswer, Request
from firstflight.egress.permitted import Permitted

_TCP_WINDOW_CLAMP = 10
_SO_RCVBUFFORCE = 33
_CHUNK = 512 << 10
# The longest wait between two checks of the received bytes.
_LONGEST_WAIT_MS = 50.0
_HTTP = {
    "1.1": pycurl.CURL_HTTP_VERSION_1_1,
    "2": pycurl.CURL_HTTP_VERSION_2TLS,
    "3": pycurl.CURL_HTTP_VERSION_3ONLY,
}
_HTTP_NAMES = {
    pycurl.CURL_HTTP_VERSION_1_0: "1.0",
    pycurl.CURL_HTTP_VERSION_1_1: "1.1",
    pycurl.CURL_HTTP_VERSION_2_0: "2",
    pycurl.CURL_HTTP_VERSION_3: "3",
}
# libcurl's error codes (curl/curl.h) and the ends that they mean. Other codes mean `failed`.
_ENDS = {
    7: "connect_failed",
    96: "connect_failed",  # QUIC
    **dict.fromkeys((35, 53, 54, 58, 59, 60, 66, 77, 80, 82, 83, 90, 91, 98), "tls_failed"),
    18: "short",
    **dict.fromkeys((16, 52, 55, 56, 92, 95), "reset"),
}
_TIMED_OUT, _STOPPED, _NOT_VERIFIED = 28, 23, 60


class Download:
    """One transfer: libcurl's options, its callbacks' observations, and the answer built from both."""

    def __init__(self, request: Request, permitted: Permitted) -> None:
        self._request = request
        self._permitted = permitted
        self._socket: socket.socket | None = None
        self._refused: str | None = None
        self._body = 0
        self._wire = shared.Wire(request.max_wire_bytes)
        self._wire_over: str | None = None
        self._headers: dict[str, str] = {}
        self._has_headers = False
        self._tls: tuple[str, ...] = ()
        self._curl = self._options()

    def run(self) -> ClientAnswer:
        """Do the transfer. Never raise due to a server's behaviour."""
        started_at, cpu = time.time_ns(), time.process_time_ns()
        multi = pycurl.CurlMulti()
        events = Events(multi)
        multi.add_handle(self._curl)
        code, message = 0, ""
        try:
            is_quiet = False
            while events.pass_on():
                if self._wire.is_over():
                    self._wire_over = self._wire.message(self._body)
                    break
                if self._tls and not is_quiet:
                    # The TLS parameters are known. In verbose mode the debug callback would also receive all
                    # data.
                    self._curl.setopt(pycurl.VERBOSE, 0)
                    is_quiet = True
            _, _, failed = multi.info_read()
            if failed:
                _, code, message = failed[0]
            cpu = time.process_time_ns() - cpu
            return self._answer(code, message, started_at, cpu // 1000)
        finally:
            multi.remove_handle(self._curl)
            self._curl.close()
            multi.close()
            if self._socket is not None:
                self._socket.close()

    def _options(self) -> Any:
        request, curl = self._request, pycurl.Curl()
        address = f"[{request.ip}]" if ":" in request.ip else request.ip
        curl.setopt(pycurl.URL, request.url)
        curl.setopt(pycurl.CONNECT_TO, [f"::{address}:{request.port}"])
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.PROXY, "")
        curl.setopt(pycurl.HTTP_VERSION, _HTTP[request.http])
        curl.setopt(pycurl.USERAGENT, request.user_agent)
        curl.setopt(pycurl.HTTPHEADER, ["Accept-Encoding: identity", "Accept: */*"])
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.FRESH_CONNECT, 1)
        curl.setopt(pycurl.FORBID_REUSE, 1)
        curl.setopt(pycurl.SSL_SESSIONID_CACHE, 0)
        curl.setopt(pycurl.CAINFO, os.fsencode(request.roots))
        curl.setopt(pycurl.SSL_VERIFYPEER, int(request.verify))
        curl.setopt(pycurl.SSL_VERIFYHOST, 2 * int(request.verify))
        curl.setopt(pycurl.TIMEOUT_MS, int(request.timeout_s * 1000))
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(request.timeout_s * 1000))
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.BUFFERSIZE, _CHUNK)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._open)
        curl.setopt(pycurl.HEADERFUNCTION, self._header)
        curl.setopt(pycurl.WRITEFUNCTION, self._write)
        curl.setopt(pycurl.DEBUGFUNCTION, self._debug)
        curl.setopt(pycurl.VERBOSE, 1)
        return curl

    def _open(self, _purpose: int, address: Any) -> Any:
        """Open the connection's socket, unless the address may not be contacted."""
        ip = address.addr[0]
        if ip != self._request.ip:
            self._refused = f"libcurl was about to contact {ip}"
        else:
            self._refused = shared.why_not(self._permitted, ip, self._request.host)
        if self._refused is not None:
            return pycurl.SOCKET_BAD
        self._socket = socket.socket(address.family, address.socktype, address.protocol)
        if self._request.window_clamp is not None:
            self._socket.setsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP, self._request.window_clamp)
        if self._socket.type == socket.SOCK_DGRAM:
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, shared.UDP_BUFFER)
            except PermissionError:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, shared.UDP_BUFFER)
        return self._socket

    def _header(self, line: bytes) -> None:
        if self._body:
            return  # a trailer (RFC 9110 6.5) has no effect
        text = line.decode("latin-1").strip()
        if text.startswith("HTTP/"):
            self._headers.clear()
            self._has_headers = False
        elif not text:
            self._has_headers = True
        if self._has_headers:
            return  # the end, or trailers without a body
        name, colon, value = text.partition(":")
        name = name.strip().lower()
        if colon and name in KEPT_HEADERS:
            self._headers.setdefault(name, value.strip()[:MOST_OF_A_HEADER])

    def _write(self, data: bytes) -> int | None:
        self._body += len(data)
        return -1 if self._body >= self._request.max_bytes else None

    def _debug(self, kind: int, data: bytes) -> None:
        if kind == pycurl.INFOTYPE_TEXT and data.startswith(b"SSL connection using "):
            words = data.decode("latin-1").removeprefix("SSL connection using ").split("/")
            self._tls = tuple(word.strip() for word in words)

    def _answer(self, code: int, message: str, started_at: int, cpu_us: int) -> ClientAnswer:
        if self._refused is not None:
            return ClientAnswer("blocked", detail=self._refused)
        info = self._curl.getinfo
        request, sock = self._request, self._socket

        def after(name: int) -> int | None:
            return int(info(name)) or None

        status = int(info(pycurl.RESPONSE_CODE)) or None
        connect_us = after(pycurl.CONNECT_TIME_T)
        limit = code == _STOPPED and self._body >= request.max_bytes
        tls = (*self._tls, None, None, None)[:3]
        end = "complete" if code == 0 else _ENDS.get(code, "failed")
        if self._wire_over is not None:
            end, message = "wire_limit", self._wire_over
        elif limit:
            end = "limit"
        elif code == _TIMED_OUT:
            end = "timeout"
        if connect_us is None and end in ("timeout", "reset"):
            end = "connect_failed"
        # True: the certificate is valid. False: it is invalid. `None`: verification did not complete.
        verified = None
        if request.verify and (code == _NOT_VERIFIED or status is not None):
            verified = code != _NOT_VERIFIED
        return ClientAnswer(
            end=end,
            detail=None if end in ("complete", "limit") else message[:MOST_OF_A_HEADER] or f"libcurl {code}",
            started_at=started_at,
            client_ip=info(pycurl.LOCAL_IP) or None,
            client_port=max(0, int(info(pycurl.LOCAL_PORT))) or None,
            # For QUIC, libcurl reports the end of the handshake here, which is tls_us.
            connect_us=None if request.http == "3" else connect_us,
            tls_us=after(pycurl.APPCONNECT_TIME_T),
            first_byte_us=after(pycurl.STARTTRANSFER_TIME_T) if status else None,
            duration_us=after(pycurl.TOTAL_TIME_T),
            cpu_us=cpu_us,
            status=status,
            http_version=_HTTP_NAMES.get(int(info(pycurl.INFO_HTTP_VERSION))) if status else None,
            tls_version=tls[0],
            cipher=tls[1],
            tls_group=tls[2],
            tls_verified=verified,
            body_bytes=min(self._body, request.max_bytes),
            content_length=shared.content_length(self._headers),
            headers=self._headers,
            receive_buffer=_option(sock, socket.SO_RCVBUF),
            udp_drops=_drops(sock),
            wire_bytes=self._wire.bytes(),
        )


class Events:
    """The sockets and the timer for a libcurl multi handle: one system call and one libcurl call per event.

    `multi.perform` and `multi.select` list all sockets on each call. This is a tenth of the CPU time for a
    fast download.
    """

    def __init__(self, multi: Any) -> None:
        self._multi = multi
        self._poll = select.poll()
        self._due: float | None = None
        multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)

    def pass_on(self) -> bool:
        """Wait for the next event and pass it to libcurl. Return whether a transfer is still in progress."""
        left_ms = _LONGEST_WAIT_MS
        if self._due is not None:
            left_ms = min(left_ms, max(0.0, (self._due - time.monotonic()) * 1000))
        ready = self._poll.poll(math.ceil(left_ms))
        active = 1
        for number, poll_events in ready:
            _, active = self._multi.socket_action(number, _curls_events(poll_events))
        if not ready or self._overdue():
            self._due = None
            _, active = self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        return bool(active)

    def _overdue(self) -> bool:
        return self._due is not None and time.monotonic() >= self._due

    def _watch(self, action: int, number: int, _multi: Any, _data: Any) -> None:
        if action == pycurl.POLL_REMOVE:
            self._poll.unregister(number)
        else:
            mask = select.POLLIN if action & pycurl.POLL_IN else 0
            self._poll.register(number, mask | (select.POLLOUT if action & pycurl.POLL_OUT else 0))

    def _set_timer(self, after_ms: int) -> None:
        self._due = None if after_ms < 0 else time.monotonic() + after_ms / 1000


def _curls_events(poll_events: int) -> int:
    """Translate poll's events to libcurl's."""
    mask = pycurl.CSELECT_IN if poll_events & (select.POLLIN | select.POLLHUP) else 0
    mask |= pycurl.CSELECT_OUT if poll_events & select.POLLOUT else 0
    return mask | (pycurl.CSELECT_ERR if poll_events & (select.POLLERR | select.POLLNVAL) else 0)


def _option(sock: socket.socket | None, option: int) -> int | None:
    return None if sock is None else sock.getsockopt(socket.SOL_SOCKET, option)


def _drops(sock: socket.socket | None) -> int | None:
    """Return the number of datagrams that the kernel dropped; `None` for TCP."""
    return shared.drops(sock) if sock is not None and sock.type == socket.SOCK_DGRAM else None


def answer(request: Request, permitted: Permitted) -> ClientAnswer:
    """Do a request's transfer. Answer `failed` if libcurl rejects the request."""
    try:
        transfer = Download(request, permitted)
    except (pycurl.error, ValueError) as error:
        return ClientAnswer("failed", detail=f"libcurl does not take the request: {error}"[:MOST_OF_A_HEADER])
    return transfer.run()


def main(arguments: Iterable[str]) -> None:
    """Answer requests until the end of standard input. `shared.permitted` describes the arguments."""
    permitted = shared.permitted(arguments)
    shared.say_ready(pycurl.version.split()[1])
    for line in sys.stdin.buffer:
        shared.say(answer(Request.of(line), permitted))


if __name__ == "__main__":
    main(sys.argv[1:])
