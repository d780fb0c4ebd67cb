"""Checks of captures, time stamps and offloads of the interface that probes leave by."""

from __future__ import annotations

import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from firstflight import capture
from firstflight.errors import FirstflightError
from firstflight.settings import Settings, Vantage
from orchestration.checks.finding import Finding, failed, not_checked, ok, warning
from scanner.driver.capture import answers_to

# linux/net_tstamp.h: software time stamps of sent and received packets, without the packets' content.
_SO_TIMESTAMPING = 37
_FLAGS = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 11
# The kernel starts to stamp packets some time after the first socket enables it.
_STAMPS_S = 1.0
_LOOK_S = 0.01
_MERGING = ("generic-receive-offload", "large-receive-offload")


def capturing(settings: Settings, vantage: Vantage) -> Finding:
    """Return whether tcpdump can capture here, by starting it as the probe stage does."""
    name = "capture"
    if not settings.capture.enabled:
        return not_checked(name, "capture.enabled is false, so no row will have its packets")
    try:
        interface = vantage.interface or capture.default_interface()
        with (
            tempfile.TemporaryDirectory(prefix="firstflight-doctor.") as folder,
            capture.TcpdumpCapture(
                Path(folder) / "check.pcap",
                interface,
                answers_to(settings.ports_at(vantage), settings.probe.port),
                snaplen=settings.capture.snaplen,
                buffer_kib=settings.capture.buffer_kib,
                drain_s=0.0,
                max_bytes=1 << 20,
            ),
        ):
            pass
    except FirstflightError as error:
        cure = None
        if "ermission" in str(error) or "ermitted" in str(error):
            program = shutil.which("tcpdump") or "/usr/bin/tcpdump"
            cure = (
                f"run as root, give tcpdump the capability (`setcap cap_net_raw+ep {program}`), or measure "
                "without captures (capture.enabled=false)"
            )
        elif "not found" in str(error):
            cure = "install it, or measure without captures (capture.enabled=false)"
        return failed(name, str(error), cure)
    return ok(name, f"tcpdump captures on {interface}")


def stamps(vantage: Vantage) -> Finding:
    """Return whether the kernel stamps datagrams when they leave and arrive.

    Sends bytes only to this machine's loopback address. The capabilities of the interface's driver are read
    with ethtool.
    """
    name = "time stamps"
    try:
        missing = _missing_on_loopback()
    except OSError as error:
        return failed(
            name, f"this kernel gives no time stamps ({error.strerror or error})", "use Linux 5.10 or later"
        )
    if missing:
        return failed(
            name,
            f"this kernel gives no time stamp of {missing}",
            "measure on a Linux kernel, not in a sandbox that imitates one",
        )
    interface = _interface(vantage)
    output = _ethtool("-T", interface) if interface is not None else None
    if output is None:
        return ok(name, "the kernel time-stamps sent and received packets")
    if "software-transmit" not in output:
        return warning(
            name,
            f"the driver of {interface} does not time-stamp sent packets, so times start at the system call",
            "measure from another interface, or expect delays that are some microseconds too long",
        )
    return ok(name, f"the kernel time-stamps sent and received packets, also on {interface}")


def offloads(vantage: Vantage) -> Finding:
    """Return whether the interface merges packets before they are captured."""
    name = "offloads"
    interface = _interface(vantage)
    if interface is None:
        return not_checked(name, "there is no default route, and [[vantage]] names no interface")
    output = _ethtool("-k", interface)
    if output is None:
        return not_checked(name, f"ethtool does not show the features of {interface}; install ethtool")
    on = [offload for offload in _MERGING if re.search(rf"^{offload}: on", output, re.MULTILINE)]
    if not on:
        return ok(name, f"{interface} merges no packets")
    return warning(
        name,
        f"{interface} merges TCP segments that arrive ({', '.join(on)}), so captures of downloads may show "
        "fewer and larger ones",
        f"run `ethtool -K {interface} gro off lro off`",
    )


def _interface(vantage: Vantage) -> str | None:
    try:
        return vantage.interface or capture.default_interface()
    except FirstflightError:
        return None


def _ethtool(option: str, interface: str) -> str | None:
    program = shutil.which("ethtool", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        return None
    done = subprocess.run(
        [program, option, interface], capture_output=True, text=True, check=False, timeout=10
    )
    return done.stdout if done.returncode == 0 else None


def _missing_on_loopback() -> str | None:
    """Send bytes from a socket to itself until both directions have stamps.

    Return which packets have no stamp after a second: received or sent ones; `None`: both have stamps.
    """
    missing: str | None = "received packets"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _FLAGS)
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(_STAMPS_S)
        end = time.monotonic() + _STAMPS_S
        while missing is not None and time.monotonic() < end:
            udp.sendto(b"\0", udp.getsockname())
            arrived = _has_stamp(udp.recvmsg(1, 512)[1])
            try:
                is_sent_stamped = _has_stamp(
                    udp.recvmsg(64, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)[1]
                )
            except BlockingIOError:
                is_sent_stamped = False
            missing = "received packets" if not arrived else None if is_sent_stamped else "sent packets"
            if missing is not None:
                time.sleep(_LOOK_S)
    return missing


def _has_stamp(control: list[tuple[int, int, bytes]]) -> bool:
    """Return whether control messages hold a software stamp (struct scm_timestamping) that is not 0."""
    stamps_data = [
        data for level, kind, data in control if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPING)
    ]
    return any(any(struct.unpack_from("@ll", data)) for data in stamps_data)
