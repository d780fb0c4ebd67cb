"""The capture during the probe stage, with real tcpdump on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from firstflight import capture, capture_files
from firstflight.errors import FirstflightError, Interrupted, UsageError
from firstflight.system.noted_signals import STOPPING
from tests.processes import halt
from tests.waiting import until

FILTER = "udp and portrange 61900-61999"


def send(count: int, port: int = 61950) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for number in range(count):
            sock.sendto(struct.pack("!I", number), ("127.0.0.1", port))


def packets(path: Path) -> list[bytes]:
    """Return the packets in a pcap file; fails when the file is not in nanoseconds."""
    data = path.read_bytes()
    assert struct.unpack_from("=I", data)[0] == 0xA1B23C4D, "not a pcap file in nanoseconds"
    found, at = [], 24
    while at < len(data):
        (length,) = struct.unpack_from("=8xI", data, at)
        found.append(data[at + 16 : at + 16 + length])
        assert len(found[-1]) == length, "the last packet is cut"
        at += 16 + length
    return found


def new(
    path: Path, interface: str = "lo", bpf: str = FILTER, max_bytes: int = 64 << 20
) -> capture.TcpdumpCapture:
    return capture.TcpdumpCapture(
        path, interface, bpf, snaplen=262_144, buffer_kib=4096, drain_s=1.6, max_bytes=max_bytes
    )


def test_every_packet_between_start_and_end_is_captured(tmp_path: Path) -> None:
    with new(tmp_path / "probe.pcap") as running:
        send(500)
        assert not (tmp_path / "probe.pcap").exists(), "a file with its final name is complete"
    send(3)
    numbers = [struct.unpack("!I", packet[-4:])[0] for packet in packets(tmp_path / "probe.pcap")]
    assert sorted(set(numbers)) == list(range(500))
    (record,) = capture_files.records(tmp_path)
    assert record.captured == len(numbers)
    assert record.dropped_by_kernel == 0
    assert record.ended_ns is not None and 0 < record.started_ns < record.ended_ns
    assert capture_files.losses_of(running.record) == []


def test_a_capture_that_gets_no_processor_is_waited_for(tmp_path: Path) -> None:
    """A busy machine can stall tcpdump. Packets that tcpdump has not read when it stops are lost."""
    with new(tmp_path / "probe.pcap") as running:
        assert running._process is not None
        halt(running._process.pid)
        send(500)
        again = threading.Timer(2 * running.drain_s, running._process.send_signal, [signal.SIGCONT])
        again.start()
    numbers = [struct.unpack("!I", packet[-4:])[0] for packet in packets(tmp_path / "probe.pcap")]
    assert sorted(set(numbers)) == list(range(500))


def test_a_machine_that_suspends_tcpdump_for_ten_seconds_loses_no_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tcpdump is suspended for 11 s at its start and for 11 s at its stop."""
    real = shutil.which("tcpdump")
    wrapped = tmp_path / "tcpdump"
    wrapped.write_text(
        "#!/bin/sh\nsleep 11\n"
        f'setpriv --pdeathsig KILL {real} "$@" &\n'
        "trap 'sleep 11; kill -INT '$! INT\n"
        "wait\nwait\n"
    )
    wrapped.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with new(tmp_path / "folder" / "probe.pcap"):
        send(5)
    assert len(packets(tmp_path / "folder" / "probe.pcap")) >= 5
    (record,) = capture_files.records(tmp_path / "folder")
    assert record.captured is not None and record.captured >= 5


def test_drops_are_a_warning(tmp_path: Path) -> None:
    running = new(tmp_path / "probe.pcap")
    running.record.captured, running.record.dropped_by_kernel = 10, 3
    assert "dropped 3 packets" in capture_files.losses_of(running.record)[0]
    running.record.captured = None
    assert "unknown" in capture_files.losses_of(running.record)[0]


def test_a_missing_interface_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"^tcpdump could not start on nosuch0: .*nosuch0"),
        new(tmp_path / "probe.pcap", "nosuch0"),
    ):
        pass
    assert not list(tmp_path.iterdir()), "a file without a capture"


def test_a_missing_tcpdump_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="tcpdump was not found"), new(tmp_path / "probe.pcap"):
        pass


def test_a_capture_that_dies_is_noticed(tmp_path: Path) -> None:
    with (
        pytest.raises(FirstflightError, match="ended while the probe ran"),
        new(tmp_path / "probe.pcap") as running,
    ):
        assert running._process is not None
        running._process.kill()
        running._process.wait()
        running.check()


def test_a_killed_parent_takes_tcpdump_along_and_the_packets_stay(tmp_path: Path) -> None:
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from tests.firstflight.test_capture import new, send\n"
        "c = new(Path(sys.argv[1]) / 'probe.pcap').__enter__()\n"
        "send(20); print(c._process.pid, flush=True); time.sleep(600)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), str(root)], stdout=subprocess.PIPE, cwd=root
    ) as parent:
        assert parent.stdout is not None
        tcpdump = int(parent.stdout.readline())
        until(lambda: (tmp_path / "probe.pcap.part").stat().st_size > 20 * 60, "20 packets in the file")
        # A busy machine may suspend tcpdump. Its file is not renamed until it has exited.
        halt(tcpdump)
        parent.kill()
    goes_on = threading.Timer(1, os.kill, (tcpdump, signal.SIGCONT))
    goes_on.start()
    capture_files.keep_parts(tmp_path)
    # The lock on the file is released some time before the exit.
    until(lambda: _state(tcpdump) == "Z", "the end of tcpdump")
    assert capture_files.next_path(tmp_path).name == "probe-2.pcap"
    assert len(packets(tmp_path / "probe.pcap")) >= 20
    goes_on.join()


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def test_a_truncated_capture_keeps_its_complete_packets(tmp_path: Path) -> None:
    with new(tmp_path / "probe.pcap"):
        send(4)
    whole = (tmp_path / "probe.pcap").read_bytes()
    (tmp_path / "probe.pcap").unlink()
    for cut in (1, 10, 30, 47):
        (tmp_path / "probe.pcap.part").write_bytes(whole[:-cut])
        capture_files.next_path(tmp_path)
        assert 2 <= len(packets(tmp_path / "probe.pcap")) < len(packets_of(whole, tmp_path))
        (tmp_path / "probe.pcap").unlink()


def test_all_captures_of_a_killed_process_are_kept(tmp_path: Path) -> None:
    with new(tmp_path / "whole.pcap"):
        send(4)
    whole = (tmp_path / "whole.pcap").read_bytes()
    for name in ("bl.pcap", "bl-2.pcap", "all14.pcap"):
        (tmp_path / f"{name}.part").write_bytes(whole[:-1])
    capture_files.keep_parts(tmp_path, "*")
    assert not [*tmp_path.glob("*.part")]
    for name in ("bl.pcap", "bl-2.pcap", "all14.pcap"):
        assert len(packets(tmp_path / name)) == len(packets(tmp_path / "whole.pcap")) - 1


def packets_of(data: bytes, folder: Path) -> list[bytes]:
    path = folder / "whole.pcap"
    path.write_bytes(data)
    return packets(path)


def test_default_interface_is_one_of_ours_or_a_sentence() -> None:
    try:
        assert (Path("/sys/class/net") / capture.default_interface()).exists()
    except UsageError as error:
        assert "interface" in str(error)


def test_stopping_while_capturing_leaves_a_complete_file(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new(tmp_path / "probe.pcap"):
        send(5)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    assert len(packets(tmp_path / "probe.pcap")) >= 5


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_while_the_capture_ends_leaves_a_complete_file(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = {stopping_signal: signal.getsignal(stopping_signal) for stopping_signal in STOPPING}

    def interrupt() -> None:
        until(lambda: signal.getsignal(number) != before[number], "the end of the capture")
        os.kill(os.getpid(), number)

    try:
        with pytest.raises(Interrupted, match="captured packets are kept"), new(tmp_path / "probe.pcap"):
            send(5)
            threading.Thread(target=interrupt, daemon=True).start()
    finally:
        for stopping_signal, handler in before.items():
            signal.signal(stopping_signal, handler)
    assert len(packets(tmp_path / "probe.pcap")) >= 5
    (record,) = capture_files.records(tmp_path)
    assert record.captured is not None
