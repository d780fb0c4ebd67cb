"""Values of cell fields that a stack may or may not support."""

from __future__ import annotations

from typing import Literal

Answering = Literal["iack", "wfc"]
"""Instant ACK, or wait for certificate: ACK and ServerHello in a single datagram (paper 000, section 2)."""
Handshake = Literal["full", "retry", "resumed"]
"""A full handshake; one that starts with a Retry; or a resumed session, with the request in 0-RTT packets."""
Reordering = Literal["at_once", "ignored", "next_three"]
"""A receiver's response to reordered packets (paper 003, section 5.6: D, NR, 3A): `at_once` sends an ACK
immediately, `ignored` does not change the ACKs, `next_three` acknowledges each of the next three packets."""
Controller = Literal["cubic", "reno", "bbr"]
CertificateKey = Literal["ecdsa_p256", "rsa_2048"]
"""Keys of the server's chain (lab/hosts/certificates.py)."""
Protocol = Literal["h3", "hq-interop", "http/1.1", "h2"]
"""An application protocol, by its ALPN identifier (RFC 7301). hq-interop is HTTP/0.9 over QUIC: `GET PATH` on
a stream, and the body as the answer (paper 000 calls it HTTP/1.1)."""
HTTP: dict[Protocol, str] = {"h3": "3", "hq-interop": "0.9", "http/1.1": "1.1", "h2": "2"}
"""The value of `http` in a client's request, for each protocol."""
Transport = Literal["udp", "tcp"]
"""QUIC runs over UDP, TLS over TCP."""
_OVER_TCP = ("http/1.1", "h2")


def transport(alpn: str) -> Transport:
    """Return the transport of an application protocol."""
    return "tcp" if alpn in _OVER_TCP else "udp"
