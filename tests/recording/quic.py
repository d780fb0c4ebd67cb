"""QUIC recordings: quic-go, quiche and aioquic as servers, quic-go and aioquic as clients."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from firstflight.system import binaries
from lab.hosts.certificates import ServerCertificate, issue, make_authority
from lab.hosts.servers import CHAIN_BYTES
from tests.recording.network import CLIENT, SERVER, SERVER6, RemoteHost, cable, ready, recording

NAME = "www.example.net"
INNER = 4433
UDP = "udp"


@dataclass
class Quic:
    """One recording. `path` has the options of relay.py; `None`: no relay."""

    server: Callable[[Path, str, int], list[str]]
    client: list[str]
    path: list[str] | None = field(default_factory=list)
    family: int = 4
    # The place of the capture: the client's interface, or the server's loopback interface after the relay.
    at: str = "client"
    client_program: str = "quicgo"


def quicgo(*options: str) -> Callable[[Path, str, int], list[str]]:
    """Run quic-go as server."""

    def argv(folder: Path, address: str, port: int) -> list[str]:
        files = certificate(folder, "small")
        program = str(binaries.find("firstflight-quicgo-peer"))
        return [
            program,
            "-listen",
            joined(address, port),
            "-chain",
            str(files.chain),
            "-key",
            str(files.key),
            *options,
        ]

    return argv


def quiche(mode: str, delay_us: int | None, size: str = "small") -> Callable[[Path, str, int], list[str]]:
    """Run the lab's quiche server in the given mode."""

    def argv(folder: Path, address: str, port: int) -> list[str]:
        files = certificate(folder, size)
        endpoint = {"domain": NAME, "ip": address, "mode": mode, "delay_us": delay_us, "certificate": size}
        settings = {
            "port": port,
            "listen": [address],
            "certificates": {size: {"chain": str(files.chain), "key": str(files.key)}},
            "endpoints": [endpoint],
        }
        file = folder / "edge.json"
        file.write_text(json.dumps(settings))
        return [str(binaries.find("firstflight-edge")), "--config", str(file)]

    return argv


def aioquic(*options: str) -> Callable[[Path, str, int], list[str]]:
    """Run aioquic as server."""

    def argv(folder: Path, address: str, port: int) -> list[str]:
        files = certificate(folder, "small")
        start = [sys.executable, "-m", "tests.recording.aioquic_peer", address, str(port)]
        return [*start, "--chain", str(files.chain), "--key", str(files.key), *options]

    return argv


def certificate(folder: Path, size: str) -> ServerCertificate:
    return issue(make_authority(folder), size, [NAME], chain_bytes=CHAIN_BYTES[size])


def joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


BULK = ["-bytes", "60000"]
RECORDINGS: dict[str, Quic] = {
    # Loses the first datagrams in both directions, and some later ones.
    "quicgo_loss": Quic(quicgo(), ["-bytes", "100000"], ["--lose", "c0,s1,s9,s10,s30,c12,s55,s56,s57"]),
    "quicgo_reordering": Quic(quicgo(), BULK, ["--late", ",".join(f"s{n},c{n}" for n in range(3, 60, 7))]),
    # quic-go changes keys after its first hundred packets.
    "quicgo_key_update": Quic(quicgo(), ["-bytes", "150000"], ["--delay-ms", "5"]),
    "quicgo_migration": Quic(
        quicgo(), ["-bytes", "15000", "-streams", "3", "-move", f"{CLIENT}:40007"], path=None
    ),
    "quicgo_rebinding": Quic(
        quicgo(), ["-bytes", "9000", "-streams", "3"], ["--rebind-after", "14"], at="server"
    ),
    "quicgo_retry": Quic(quicgo("-retry"), ["-bytes", "3000"]),
    "quicgo_version_2": Quic(quicgo("-versions", "2,1"), ["-versions", "2", "-bytes", "3000"]),
    "quicgo_port_reuse": Quic(quicgo(), ["-connections", "3", "-local", f"{CLIENT}:40001"]),
    "quicgo_ipv6": Quic(quicgo(), ["-bytes", "5000"], family=6, path=None),
    "quicgo_at_server": Quic(quicgo(), ["-bytes", "8000"], at="server"),
    "quiche_iack": Quic(quiche("iack", 15_000), ["-handshake-only"]),
    "quiche_large_certificate": Quic(quiche("wait", 5000, "large"), ["-handshake-only"]),
    # The lab's server requires a token only if the ClientHello fits into a single datagram.
    "quiche_retry_iack": Quic(quiche("retry_iack", 8000), ["--bytes", "4000"], client_program="aioquic"),
    "quiche_hello_retry": Quic(quiche("hello_retry", None), ["-handshake-only"]),
    "quiche_version_negotiation": Quic(quiche("wait", None), ["-versions", "2,1", "-handshake-only"]),
    "quiche_certificate_late": Quic(quiche("sh_then_certificate", 12_000), ["-handshake-only"]),
    "quiche_key_updates": Quic(
        quiche("wait", None),
        ["--bytes", "40000", "--key-updates", "3", "--pause-ms", "30"],
        client_program="aioquic",
    ),
    "quiche_loss": Quic(
        quiche("iack", 4000),
        ["--bytes", "40000"],
        ["--lose", "c0,s1,c9,c15,c16,s8", "--late", "c12,c20,s12"],
        client_program="aioquic",
    ),
    "quiche_rebinding": Quic(
        quiche("wait", None),
        ["--bytes", "24000"],
        ["--rebind-after", "12"],
        at="server",
        client_program="aioquic",
    ),
    "aioquic_fragments": Quic(
        aioquic("--datagram-size", "2800"), ["--datagram-size", "2800"], path=None, client_program="aioquic"
    ),
    "aioquic_fragments_ipv6": Quic(
        aioquic("--datagram-size", "2800"),
        ["--datagram-size", "2800"],
        path=None,
        family=6,
        client_program="aioquic",
    ),
}


def record(name: str, folder: Path, out: Path) -> None:
    """Make OUT/NAME.pcap and OUT/NAME.keys."""
    recorded = RECORDINGS[name]
    folder.mkdir(parents=True, exist_ok=True)
    keys = out / f"{name}.keys"
    keys.unlink(missing_ok=True)
    address = SERVER if recorded.family == 4 else SERVER6
    with cable() as host, served(recorded, folder, host, address):
        place = {"client": ("near", None), "server": ("lo", host)}[recorded.at]
        with recording(out / f"{name}.pcap", place[0], UDP, host=place[1]):
            subprocess.run(client(recorded, address, keys), check=True, timeout=30)


@contextmanager
def served(recorded: Quic, folder: Path, host: RemoteHost, address: str) -> Iterator[None]:
    """Run the server, with the relay if the recording has one."""
    if recorded.path is None:
        with ready(host.argv(*recorded.server(folder, address, 443))):
            yield
        return
    relay = [
        sys.executable,
        "-m",
        "tests.recording.relay",
        f"{address},443",
        f"127.0.0.1,{INNER}",
        *recorded.path,
    ]
    with ready(host.argv(*recorded.server(folder, "127.0.0.1", INNER))), ready(host.argv(*relay)):
        yield


def client(recorded: Quic, address: str, keys: Path) -> list[str]:
    if recorded.client_program == "aioquic":
        start = [sys.executable, "-m", "tests.recording.aioquic_peer", address, "443"]
        return [*start, "--keys", str(keys), *recorded.client]
    program = str(binaries.find("firstflight-quicgo-peer"))
    return [program, "-to", joined(address, 443), "-name", NAME, "-keys", str(keys), *recorded.client]
