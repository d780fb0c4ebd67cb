"""Choices that a cell makes and a stack supports or not."""

from __future__ import annotations

from typing import Literal

Answering = Literal["iack", "wfc"]
"""Instant ACK, or wait for certificate: ACK and ServerHello in one datagram (paper 000, section 2)."""
Reordering = Literal["at_once", "ignored", "next_three"]
"""What a receiver does when packets come out of order (paper 003, section 5.6: D, NR, 3A): it sends an ACK at
once, or takes no notice, or acknowledges each of the next three packets."""
Controller = Literal["cubic", "reno", "bbr"]
CertificateKey = Literal["ecdsa_p256", "rsa_2048"]
"""Keys of the server's chain (lab/certificates.py)."""
