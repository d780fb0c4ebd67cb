"""Generated captures: the effects of real networks and captures on connections, each with its key log."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from tests.differential.exchange import ONE_WAY_S, Exchange
from tests.dissect.build import V1, V2, CaptureBuilder

Maker = Callable[[TextIO], list[CaptureBuilder]]
Action = tuple[float, Callable[[Exchange], None]]


def say(stream: int, data: bytes, fin: bool = True) -> Callable[[Exchange], None]:
    """Return an action: the client sends on a stream."""
    return lambda x: x.near.send_stream_data(stream, data, end_stream=fin)


def answer(stream: int, size: int, fin: bool = True) -> Callable[[Exchange], None]:
    """Return an action: the server sends on a stream that the client opened."""

    def act(x: Exchange) -> None:
        assert x.far is not None
        x.far.send_stream_data(stream, bytes(i * 31 & 0xFF for i in range(size)), end_stream=fin)

    return act


def request(size: int = 20_000) -> list[Action]:
    """Return a request's actions, an answer of `size` bytes, and a close."""
    return [
        (0.1, say(0, b"GET /\r\n")),
        (0.15, answer(0, size)),
        (1.0, lambda x: x.near.close(error_code=0x100, reason_phrase="done")),
    ]


def plain(keys: TextIO) -> list[CaptureBuilder]:
    return [Exchange(keys, actions=request()).run()]


def hello_over_two_datagrams(keys: TextIO) -> list[CaptureBuilder]:
    """A ClientHello larger than one datagram, as with a post-quantum key share."""
    many = ["h3", *(f"protocol-{n:03}-of-many" for n in range(70))]
    return [Exchange(keys, client_settings={"alpn_protocols": many}, actions=request(3000)).run()]


def key_updates(keys: TextIO) -> list[CaptureBuilder]:
    """The client updates keys twice; the server updates keys once in between."""
    actions: list[Action] = [(0.1, say(0, b"a", fin=False)), (0.2, answer(0, 2000, fin=False))]
    actions += [(0.3, lambda x: x.near.request_key_update()), (0.31, say(0, b"b", fin=False))]
    actions += [(0.6, lambda x: x.far.request_key_update()), (0.61, answer(0, 500, fin=False))]  # type: ignore[union-attr]
    actions += [(0.9, lambda x: x.near.request_key_update()), (0.91, say(0, b"c"))]
    actions += [(1.2, lambda x: x.near.close())]
    return [Exchange(keys, actions=actions).run()]


def migration(keys: TextIO) -> list[CaptureBuilder]:
    """The client migrates to another port, with another connection ID; the server validates the path."""

    def move(x: Exchange) -> None:
        x.client = (x.client[0], 40007)
        x.near.change_connection_id()
        x.near.send_stream_data(0, b"from elsewhere", end_stream=False)

    def answer_back(x: Exchange) -> None:
        assert x.far is not None
        x.far.send_stream_data(0, bytes(3000), end_stream=True)

    actions: list[Action] = [(0.1, say(0, b"from here", fin=False)), (0.4, move), (0.6, answer_back)]
    return [Exchange(keys, actions=[*actions, (1.0, lambda x: x.near.close())]).run()]


def rebinding(keys: TextIO) -> list[CaptureBuilder]:
    """A NAT changes the client's port. The connection IDs do not change."""

    def rebind(x: Exchange) -> None:
        x.client = (x.client[0], 40009)
        x.near.send_stream_data(0, b"again", end_stream=True)

    actions: list[Action] = [(0.1, say(0, b"once", fin=False)), (0.4, rebind), (0.6, answer(0, 100))]
    return [Exchange(keys, actions=actions).run(1.5)]


def retry(keys: TextIO) -> list[CaptureBuilder]:
    return [Exchange(keys, retry=True, actions=request(3000)).run()]


def version_negotiation(keys: TextIO) -> list[CaptureBuilder]:
    """The client starts with version 2, but the server only supports version 1."""
    settings = {"supported_versions": [V2, V1], "original_version": V2}
    return [
        Exchange(
            keys, client_settings=settings, server_settings={"supported_versions": [V1]}, actions=request(300)
        ).run()
    ]


def version_2(keys: TextIO) -> list[CaptureBuilder]:
    settings = {"supported_versions": [V2], "original_version": V2}
    return [
        Exchange(
            keys, client_settings=settings, server_settings={"supported_versions": [V2]}, actions=request(300)
        ).run()
    ]


def loss(keys: TextIO) -> list[CaptureBuilder]:
    """The first datagram of the client, the first of the server, and some later ones are lost."""
    lost = {(True, 0), (False, 0), (False, 9), (False, 14), (True, 6)}
    path = lambda from_client, n: None if (from_client, n) in lost else ONE_WAY_S  # noqa: E731
    return [Exchange(keys, path=path, actions=[(3.0, say(0, b"GET")), (3.1, answer(0, 30_000))]).run(6)]


def reordering(keys: TextIO) -> list[CaptureBuilder]:
    """Every third datagram takes 3 ms longer."""
    path = lambda _from_client, n: ONE_WAY_S + (0.003 if n % 3 == 0 else 0)  # noqa: E731
    return [Exchange(keys, path=path, actions=request()).run()]


def port_reuse(keys: TextIO) -> list[CaptureBuilder]:
    """Three connections one after the other on the same five-tuple."""
    return [
        Exchange(keys, start_s=4.0 * n, actions=[(0.1, say(0, b"x")), (0.5, lambda x: x.near.close())]).run(1)
        for n in range(3)
    ]


def small_frames(keys: TextIO) -> list[CaptureBuilder]:
    """Frames that a transfer does not use: resets, STOP_SENDING, PING, DATAGRAM, flow control, an error."""

    def begin(x: Exchange) -> None:
        x.near.send_ping(7)
        x.near.send_datagram_frame(b"unreliable")
        x.near.send_stream_data(0, b"to be reset", end_stream=False)
        x.near.send_stream_data(2, b"one way", end_stream=True)

    def reset(x: Exchange) -> None:
        x.near.reset_stream(0, 0x10C)
        x.near.stop_stream(0, 0x10D)
        x.near.send_stream_data(4, bytes(9000), end_stream=False)

    actions: list[Action] = [(0.1, begin), (0.3, reset), (0.5, answer(4, 9000))]
    actions += [
        (1.0, lambda x: x.near.close(error_code=0x0A, frame_type=0x08, reason_phrase="no such thing"))
    ]
    limits = {"max_data": 4000, "max_stream_data": 3000}
    return [Exchange(keys, client_settings=limits, server_settings=limits, actions=actions).run()]


def client_only(keys: TextIO) -> list[CaptureBuilder]:
    return [_filtered(plain(keys)[0], lambda packet: _src(packet).startswith("192.0.2."))]


def server_only(keys: TextIO) -> list[CaptureBuilder]:
    return [_filtered(plain(keys)[0], lambda packet: _src(packet).startswith("198.51."))]


def missing_start(keys: TextIO) -> list[CaptureBuilder]:
    """The capture starts after the handshake."""
    complete = plain(keys)[0]
    return [
        _filtered(
            complete,
            lambda packet: len(complete.packets) - complete.packets.index(_at(complete, packet)) < 20,
        )
    ]


def _at(capture: CaptureBuilder, packet: bytes) -> tuple[int, bytes]:
    return next(entry for entry in capture.packets if entry[1] is packet)


def _src(packet: bytes) -> str:
    return ".".join(str(byte) for byte in packet[12:16])


def _filtered(capture: CaptureBuilder, keep: Callable[[bytes], bool]) -> CaptureBuilder:
    return CaptureBuilder(packets=[entry for entry in capture.packets if keep(entry[1])])


def snapped(original: Path, path: Path, length: int) -> Path:
    """Return the capture with packets truncated to `length` bytes."""
    data, at = original.read_bytes(), 24
    out = data[:16] + struct.pack("<I", length) + data[20:24]
    while at < len(data):
        seconds, fraction, size, whole = struct.unpack_from("<IIII", data, at)
        kept = min(size, length)
        out += struct.pack("<IIII", seconds, fraction, kept, whole) + data[at + 16 : at + 16 + kept]
        at += 16 + size
    path.write_bytes(out)
    return path


SCENARIOS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        plain,
        hello_over_two_datagrams,
        key_updates,
        migration,
        rebinding,
        retry,
        version_negotiation,
        version_2,
        loss,
        reordering,
        port_reuse,
        small_frames,
        client_only,
        server_only,
        missing_start,
    )
}


def make(name: str, folder: Path) -> Path:
    """Make NAME.pcap and NAME.keys in `folder`."""
    combined = CaptureBuilder()
    with (folder / f"{name}.keys").open("w") as keys:
        for capture in SCENARIOS[name](keys):
            combined.packets += capture.packets
    return combined.write(folder / f"{name}.pcap")
