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
Transport = Literal["udp", "tcp"]
"""QUIC runs over UDP, TLS over TCP."""
_OVER_TCP = ("http/1.1", "h2")


def transport(alpn: str) -> Transport:
    """Return the transport of an application protocol, given by its ALPN identifier (RFC 7301)."""
    return "tcp" if alpn in _OVER_TCP else "udp"
