"""Run tshark as pipelines do to turn captures into text columns, and check the output."""

from __future__ import annotations

import subprocess
from pathlib import Path

# The fields that such a pipeline extracts from each packet.
FIELDS = [
    "frame.number",
    "frame.time_epoch",
    "ip.src",
    "ip.dst",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "quic.header_form",
    "quic.long.packet_type",
    "quic.version",
    "quic.dcid",
    "quic.scid",
    "quic.packet_number",
    "quic.frame_type",
    "quic.ack.ack_delay",
    "quic.ack.largest_acknowledged",
    "quic.crypto.offset",
    "tls.handshake.type",
    "tls.handshake.extensions_server_name",
]
_HANDSHAKE_DONE = "30"
_BYTES_PER_HANDSHAKE = 50_000


def version() -> str:
    """Return tshark's version, for example `4.0.17`."""
    told = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout
    return told.split()[2]


def command(capture: Path, keys: Path) -> list[str | Path]:
    """Return the command: two passes over `capture` with a key log, and a line of `FIELDS` per frame."""
    two_passes: list[str | Path] = ["tshark", "-2", "-r", capture, "-T", "fields"]
    two_passes += ["-o", f"tls.keylog_file:{keys}"]
    return [*two_passes, *(part for name in FIELDS for part in ("-e", name))]


def check_memory(handshakes: int) -> None:
    """Raise SystemExit unless memory suffices for tshark, which keeps state for the whole capture."""
    wanted = handshakes * _BYTES_PER_HANDSHAKE
    available = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2]
    free = int(available.split()[0]) * 1024
    if wanted > free:
        raise SystemExit(
            f"bench: tshark needs some {wanted / 1e9:.0f} GB for a capture of {handshakes} handshakes, and "
            f"{free / 1e9:.0f} GB are free: give --per-capture N"
        )


def check(text: Path, handshakes: int) -> int:
    """Count the frames in tshark's output.

    Raises SystemExit unless tshark decrypted each frame and found every handshake confirmed. If it takes QUIC
    for another protocol or has no keys, it does less work than the dissector.
    """
    frames = opened = confirmed = 0
    number, kinds = FIELDS.index("quic.packet_number"), FIELDS.index("quic.frame_type")
    with text.open() as file:
        for line in file:
            cells = line.rstrip("\n").split("\t")
            frames += 1
            opened += cells[number] != ""
            confirmed += _HANDSHAKE_DONE in cells[kinds].split(",")
    if opened < frames or confirmed < handshakes:
        raise SystemExit(
            f"bench: tshark decrypted {opened} of {frames} frames and found HANDSHAKE_DONE in {confirmed} of "
            f"{handshakes} handshakes: check which protocol it takes the others for"
        )
    return frames
