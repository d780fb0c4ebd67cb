"""A server's TLS messages from aioquic, altered according to the name that the client requests."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from socket import inet_aton
from typing import Any

import aioquic.quic.connection
from aioquic import tls
from aioquic._buffer import Buffer
from aioquic.buffer import encode_uint_var

COMPRESSED_CERTIFICATE = 25
ZLIB, UNOFFERED = 1, 0x1234
# The maximum length of a TLS message (RFC 8446 4).
LARGEST = 0xFFFFFF
BOMB = zlib.compress(bytes(LARGEST))

Push = Callable[[Buffer, Any], None]
Altered = Callable[[Push, Buffer, Any], None]
"""Takes aioquic's function for a message, where the message goes, and the message."""


def _nothing(_push: Push, _buffer: Buffer, _message: Any) -> None:
    pass


def _wrong_finished(push: Push, buffer: Buffer, message: tls.Finished) -> None:
    push(buffer, tls.Finished(verify_data=bytes(len(message.verify_data))))


def _wrong_signature(push: Push, buffer: Buffer, message: tls.CertificateVerify) -> None:
    changed = message.signature[:-1] + bytes([message.signature[-1] ^ 1])
    push(buffer, tls.CertificateVerify(algorithm=message.algorithm, signature=changed))


def _chain(more: list[bytes]) -> Altered:
    """Append certificates to the chain."""

    def altered(push: Push, buffer: Buffer, message: tls.Certificate) -> None:
        message.certificates += [(der, b"") for der in more]
        push(buffer, message)

    return altered


def _compressed(packed: bytes | None = None, size: int | None = None, algorithm: int = ZLIB) -> Altered:
    """Send the message compressed, or `packed` instead; announce its size, or `size` (RFC 8879 4)."""

    def altered(push: Push, buffer: Buffer, message: tls.Certificate) -> None:
        nonlocal packed
        pushed = Buffer(capacity=1 << 18)
        push(pushed, message)
        plain = pushed.data[4:]
        packed = packed or zlib.compress(plain)
        body = algorithm.to_bytes(2, "big") + (len(plain) if size is None else size).to_bytes(3, "big")
        body += len(packed).to_bytes(3, "big") + packed
        buffer.push_bytes(bytes([COMPRESSED_CERTIFICATE]) + len(body).to_bytes(3, "big") + body)

    return altered


def _parameters(change: Callable[[bytes], bytes]) -> Altered:
    """Change the bytes of the transport parameters."""

    def altered(push: Push, buffer: Buffer, message: tls.EncryptedExtensions) -> None:
        kind = tls.ExtensionType.QUIC_TRANSPORT_PARAMETERS
        message.other_extensions = [
            (this, change(value) if this == kind else value) for this, value in message.other_extensions
        ]
        push(buffer, message)

    return altered


def _other_message(_push: Push, buffer: Buffer, _message: Any) -> None:
    buffer.push_bytes(b"\x63\0\0\x04abcd")


def _reserved(count: int, size: int) -> bytes:
    """Return parameters that are to be ignored (RFC 9000 18.1)."""
    content = encode_uint_var(size) + bytes(size)
    return b"".join(encode_uint_var(31 * number + 27) + content for number in range(count))


def _number(parameter: int, value: int) -> bytes:
    content = encode_uint_var(value)
    return encode_uint_var(parameter) + encode_uint_var(len(content)) + content


PREFERRED = ("127.0.0.77", 4433)
# Parameters that aioquic does not send: disable_active_migration, preferred_address (IPv4, no IPv6, a
# connection ID of 8 bytes, a token), max_datagram_frame_size, min_ack_delay, initial_max_path_id.
_PREFERRED = b"".join(
    (
        inet_aton(PREFERRED[0]),
        PREFERRED[1].to_bytes(2, "big"),
        bytes(16 + 2),
        b"\x08" + b"\x07" * 8,
        bytes(16),
    )
)
_ALL = b"".join(
    (
        encode_uint_var(0x0C) + b"\0",
        encode_uint_var(0x0D) + encode_uint_var(len(_PREFERRED)) + _PREFERRED,
        *(_number(0x20, 65_535), _number(0xFF04DE1B, 1_000), _number(0x3E, 4)),
    )
)

_HELLO_ALONE: dict[str, Altered] = {
    "push_encrypted_extensions": _nothing,
    "push_certificate": _nothing,
    "push_certificate_verify": _nothing,
    "push_finished": _nothing,
}
_NO_FINISHED: dict[str, Altered] = {"push_finished": _nothing}

MODES: dict[str, Mapping[str, Altered]] = {
    "wrong-finished": {"push_finished": _wrong_finished},
    "wrong-signature": {"push_certificate_verify": _wrong_signature},
    "other-message": {"push_encrypted_extensions": _other_message},
    "chain-60k": {"push_certificate": _chain([bytes(30_000)] * 2)},
    "chain-100k": {"push_certificate": _chain([bytes(33_000)] * 3)},
    "chain-of-thousands": {"push_certificate": _chain([n.to_bytes(2, "big") for n in range(8000)])},
    "compressed": {"push_certificate": _compressed()},
    "compressed-unoffered": {"push_certificate": _compressed(algorithm=UNOFFERED)},
    "bomb": {"push_certificate": _compressed(BOMB, LARGEST)},
    "bomb-unannounced": {"push_certificate": _compressed(BOMB, 2000)},
    "bomb-missing": {"push_certificate": _compressed(size=60_000)},
    "parameters-1000": {
        "push_encrypted_extensions": _parameters(lambda parameters: parameters + _reserved(1000, 20))
    },
    "parameters-long": {
        "push_encrypted_extensions": _parameters(lambda parameters: parameters + _reserved(1, 50_000))
    },
    "parameters-twice": {
        "push_encrypted_extensions": _parameters(lambda parameters: parameters + parameters)
    },
    "parameters-cut": {"push_encrypted_extensions": _parameters(lambda parameters: parameters[:-1])},
    "parameters-all": {"push_encrypted_extensions": _parameters(lambda parameters: parameters + _ALL)},
    "parameters-none": {"push_encrypted_extensions": _parameters(lambda parameters: parameters[:0])},
    "alert-hello": _HELLO_ALONE,
    "alert-certificate": _NO_FINISHED,
    "closed-certificate": _NO_FINISHED,
    "endless-messages": _HELLO_ALONE,
    "many-pieces": _HELLO_ALONE,
    "slow-messages": _HELLO_ALONE,
}


class AlteredNames:
    """Alters the messages of this process by the first label of the name that the last ClientHello has."""

    mode = ""

    def install(self) -> None:
        """Wrap aioquic's functions with the alterations, and enlarge its buffers for large messages."""
        aioquic.quic.connection.CRYPTO_BUFFER_SIZE = 1 << 18
        read = tls.pull_client_hello

        def pull(buf: Buffer) -> tls.ClientHello:
            hello = read(buf)
            self.mode = (hello.server_name or "").split(".")[0]
            return hello

        tls.pull_client_hello = pull
        for name in sorted({name for altered in MODES.values() for name in altered}):
            setattr(tls, name, self._pushing(name, getattr(tls, name)))

    def _pushing(self, name: str, push: Push) -> Push:
        def pushed(buffer: Buffer, message: Any) -> None:
            altered = MODES.get(self.mode, {}).get(name)
            if altered is None:
                push(buffer, message)
            else:
                altered(push, buffer, message)

        return pushed
