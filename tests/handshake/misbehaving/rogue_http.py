"""Answers over HTTP/3 that break its rules, bring a client's memory up, or its patience to an end."""

from __future__ import annotations

from collections.abc import Callable

from aioquic.buffer import encode_uint_var as integer
from aioquic.h3.connection import FrameType, H3Connection, encode_frame
from aioquic.quic.connection import QuicConnection

AnswerFunction = Callable[[H3Connection, QuicConnection, int], None]
OK = b"\0\0\xd9"
# `server`: every byte that a value may have (RFC 9110 5.5 allows no NUL, CR, LF).
VALUE = bytes(byte for byte in range(1, 256) if byte not in b"\r\n") + "\x9b31m\u202e\u2028".encode()


def plain(http: H3Connection, _quic: QuicConnection, stream: int) -> None:
    """Answer as a server should."""
    http.send_headers(stream, [(b":status", b"200"), (b"server", b"rogue/1")], end_stream=True)


def _section(section: bytes) -> AnswerFunction:
    """Answer by a HEADERS frame."""

    def answer(_http: H3Connection, quic: QuicConnection, stream: int) -> None:
        quic.send_stream_data(stream, encode_frame(FrameType.HEADERS, section), end_stream=True)

    return answer


def _sent(data: bytes, *, ends: bool = True) -> AnswerFunction:
    """Answer by bytes."""
    return lambda _http, quic, stream: quic.send_stream_data(stream, data, end_stream=ends)


def _literal(size: int, content: bytes, *, huffman: bool) -> bytes:
    """Return a section with status 200 and a field `x` of `size` times `content` (RFC 9204 4.5.6)."""
    value = content * size
    first = (0x80 if huffman else 0) | 0x7F
    length, encoded = len(value) - 0x7F, bytes([first])
    while length > 0x7F:
        encoded += bytes([length & 0x7F | 0x80])
        length >>= 7
    return OK + b"\x21x" + encoded + bytes([length]) + value


def _control(data: bytes, then: AnswerFunction | None, *, ends: bool = False) -> AnswerFunction:
    """Send bytes on the control stream, then answer."""

    def answer(http: H3Connection, quic: QuicConnection, stream: int) -> None:
        control = http._local_control_stream_id
        assert control is not None
        quic.send_stream_data(control, data, end_stream=ends)
        if then is not None:
            then(http, quic, stream)

    return answer


def _stream(data: bytes, then: AnswerFunction | None = None) -> AnswerFunction:
    """Open a further unidirectional stream, then answer."""

    def answer(http: H3Connection, quic: QuicConnection, stream: int) -> None:
        quic.send_stream_data(quic.get_next_available_stream_id(is_unidirectional=True), data)
        if then is not None:
            then(http, quic, stream)

    return answer


def _control_reset(http: H3Connection, quic: QuicConnection, _stream: int) -> None:
    assert http._local_control_stream_id is not None
    quic.reset_stream(http._local_control_stream_id, 0x100)


MODES: dict[str, AnswerFunction] = {
    "headers-10m": _sent(integer(FrameType.HEADERS) + integer(10_000_000) + bytes(300_000), ends=False),
    "headers-64k": _section(_literal(60_000, b"a", huffman=False)),
    # Five bits of zeros are `0`: as decoded, 96 kB.
    "huffman-bomb": _section(_literal(60_000, b"\0", huffman=True)),
    "fields-bomb": _section(OK + b"\xc4" * 60_000),
    "integer-overflow": _section(OK + b"\x5f" + b"\xff" * 60 + b"\x01"),
    "string-overflow": _section(OK + b"\x21x\x7f\x80\xff\xff\xff\xff\xff\xff\xff\x3f"),
    "dynamic-name": _section(OK + b"\x41\x01a"),
    "dynamic-count": _section(b"\xff\xff\x7f\0\xd9"),
    "post-base": _section(OK + b"\x10"),
    "insertions": _stream(b"\x02" + b"\xc1\x01a" * 5000),
    "informational": _sent(encode_frame(FrameType.HEADERS, b"\0\0\xd8") * 20_000, ends=False),
    "push": _sent(b"\x05\x02\0\0"),
    "half": _sent(encode_frame(FrameType.HEADERS, OK)[:4]),
    "unknown-frames": _sent(encode_frame(0x21, bytes(1000)) * 5 + encode_frame(FrameType.HEADERS, OK)),
    "unknown-stream": _stream(integer(0x21) + bytes(3000), plain),
    "bytes": lambda http, _quic, stream: http.send_headers(
        stream, [(b":status", b"200"), (b"server", VALUE)], end_stream=True
    ),
    "goaway": _control(encode_frame(FrameType.GOAWAY, b"\0"), plain),
    "goaway-alone": _control(encode_frame(FrameType.GOAWAY, b"\0"), None),
    "goaway-grows": _control(
        encode_frame(FrameType.GOAWAY, b"\0") + encode_frame(FrameType.GOAWAY, b"\x04"), None
    ),
    "settings-twice": _control(encode_frame(FrameType.SETTINGS, b""), None),
    "control-endless": _control(encode_frame(0x21, bytes(1000)) * 50, None),
    "control-closed": _control(b"", None, ends=True),
    "control-closed-late": _control(b"", plain, ends=True),
    "control-reset": _control_reset,
    "control-twice": _stream(b"\0\x04\0"),
}
