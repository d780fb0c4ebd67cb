"""Options, exit statuses and messages (docs/interfaces.md)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas import records
from tests.prober.conftest import LOOPBACK, Probe, argv, arrivals, datagrams, write_targets
from tests.processes import pending
from tests.waiting import PATIENCE_S, until

Silent = Callable[[str], socket.socket]
WINDOW_S = 30


def run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = argv(*arguments)
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_command_line_program_passes_everything_on() -> None:
    program = Path(sys.executable).with_name("firstflight")
    shown = subprocess.run([program, "probe", "--help"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0 and "Example:" in shown.stdout and "--per-prefix-rate" in shown.stdout
    version = subprocess.run([program, "probe", "--version"], capture_output=True, text=True, check=False)
    assert version.returncode == 0 and version.stdout.startswith("firstflight-prober ")
    wrong = subprocess.run([program, "probe", "--targets"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bogus"], "--bogus"),
        (["--rate", "0"], "--rate"),
        (["--allow-net", "8.8.8.0/24"], "8.8.8.0/24"),
        (["--allow-net", "127.0.0.0/7"], "127.0.0.0/7"),
        (["--allow-net", "nowhere"], "nowhere"),
        (["--cid-key", "12"], "--cid-key"),
        (["--ports", "5"], "--ports"),
        (["--initial-size", "1199"], "--initial-size"),
        (["--contact", " "], "--contact"),
        (["--resume"], "--segments"),
        (["--format", "xml"], "--format"),
        (["--format", "text"], "is for the command firstflight"),
        (["a.test"], "cannot be used with"),
        (["--port", "443"], "cannot be used with"),
    ],
)
def test_wrong_use_is_2(tmp_path: Path, options: list[str], message: str) -> None:
    targets = write_targets(tmp_path / "t.csv", [("127.0.0.1", "a.test", 9)])
    done = run("--targets", targets, *LOOPBACK, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and "panicked" not in done.stderr


def test_names_are_for_the_command() -> None:
    """The engine does not resolve names."""
    done = run("a.test", *LOOPBACK)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("firstflight probe: a.test was not resolved")


def test_without_contact_only_allowed_networks(probe: Probe, silent: Silent) -> None:
    server = silent("127.0.0.1")
    port = server.getsockname()[1]
    done = probe([("127.0.0.1", "a.test", port), ("192.0.2.1", "b.test", 443)])
    assert (done.status, done.rows, datagrams(server)) == (2, [], [])
    assert "192.0.2.1" in done.messages and "--contact" in done.messages


@pytest.mark.parametrize("content", [None, "", "1.2.3.4,a.test,443\n", "ip,port\n1.2.3.4,443\n"])
def test_unreadable_list_is_3(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "list.csv"
    if content is not None:
        path.write_text(content)
    done = run("--targets", path, *LOOPBACK)
    assert (done.returncode, done.stdout) == (3, "")
    assert "list.csv" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("option", "line"), [("--blocklist", "10.0.0.0/40"), ("--optout", "not a name")])
def test_a_broken_safety_list_stops_everything(
    probe: Probe, silent: Silent, tmp_path: Path, option: str, line: str
) -> None:
    server = silent("127.0.0.1")
    path = tmp_path / "lines"
    path.write_text(f"# ours\n\n{line}\n")
    targets = [("127.0.0.1", "a.test", server.getsockname()[1])]
    for lines in (path, tmp_path / "missing"):
        done = probe(targets, option, lines)
        assert (done.status, done.rows, datagrams(server)) == (3, [], [])
        assert str(lines) in done.messages
    assert "line 3" in probe(targets, option, path).messages


def test_rejected_lines_are_named_and_the_rest_is_done(probe: Probe) -> None:
    bad = {3: "nonsense,b.test,", 4: "127.0.0.1,b..test,9", 5: "127.0.0.1,c.test,x", 7: "1,2"}
    good = {2: "127.0.0.1,a.test,9", 6: "::1,d.test,9"}
    text = "\n".join(["ip,domain,port", *({**bad, **good}[number] for number in range(2, 8))])
    done = probe(text)
    assert done.status == 1
    assert sorted(row["domain"] for row in done.rows) == ["a.test", "d.test"]
    for number in bad:
        assert f"line {number} rejected" in done.messages
    assert done.summary["rejected"] == 4 and "4 lines" in done.messages


def test_one_line_per_input_line_with_all_columns(probe: Probe, tmp_path: Path) -> None:
    blocklist = tmp_path / "block"
    blocklist.write_text("127.0.0.9 # not him\n")
    lines = [
        "127.0.0.1,a.test,9",
        "127.0.0.1,a.test,9",
        "127.0.0.9,b.test,",
        "0:0::0:1,c.test,9",
        "127.0.0.1,,9",
    ]
    done = probe("\n".join(["ip,domain,port", *lines]), "--blocklist", blocklist)
    assert done.status == 0
    probed = sorted(f"{row['ip']},{row['domain']},{row['port']}" for row in done.rows)
    assert probed == sorted(line if not line.endswith(",") else line + "443" for line in lines)
    kind = records.load("quic_probe")
    expected = [column.name for column in kind.columns if column.source == "prober"]
    for row in done.rows:
        assert list(row) == expected


def test_standard_input_is_a_list() -> None:
    done = run("--targets", "-", *LOOPBACK, stdin="ip,domain,port\n127.0.0.1,a.test,9\n")
    assert done.returncode == 0 and '"outcome":"refused"' in done.stdout


def test_few_open_files_are_no_fault_of_the_ports(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("ip,domain,port\n127.0.0.1,a.test,9\n")
    program = argv("--targets", tmp_path / "list.csv", *LOOPBACK, "--ports", "61000-61063")
    within = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
    done = subprocess.run([*within, *program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be bound: Too many open files (os error 24); raise the limit (ulimit -n)" in done.stderr


def test_dry_run_sends_nothing(probe: Probe, silent: Silent) -> None:
    server = silent("127.0.0.1")
    done = probe([("127.0.0.1", "a.test", server.getsockname()[1])], "--dry-run")
    assert (done.status, done.rows, datagrams(server)) == (0, [], [])
    assert "1 would be probed" in done.messages


def test_full_disk_and_closed_pipe(tmp_path: Path) -> None:
    targets = write_targets(tmp_path / "t.csv", [("127.0.0.1", "a.test", 9)])
    with Path("/dev/full").open("w") as full:
        command = argv("--targets", targets, *LOOPBACK)
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 3
    assert "No space left" in done.stderr and "panicked" not in done.stderr


def test_a_summary_takes_no_device_s_place(tmp_path: Path) -> None:
    targets = write_targets(tmp_path / "t.csv", [("127.0.0.1", "a.test", 9)])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    done = run("--targets", targets, *LOOPBACK, "--summary", pipe)
    assert done.returncode == 0 and pipe.is_fifo()
    assert json.loads(reader.communicate(timeout=PATIENCE_S)[0])["targets"] == 1


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_in_order(silent: Silent, tmp_path: Path, stop: signal.Signals) -> None:
    server = silent("127.0.0.1")
    port = server.getsockname()[1]
    answered = [("127.0.0.1", f"r{i}.test", 9) for i in range(30)]
    waiting = [("127.0.0.1", f"w{i}.test", port) for i in range(3000)]
    targets = write_targets(tmp_path / "t.csv", [*answered, *waiting])
    options = (
        "--per-address-rate",
        0,
        "--per-prefix-rate",
        0,
        "--rate",
        100,
        "--timeout",
        1,
        "--attempts",
        1,
    )
    command = argv("--targets", targets, *LOOPBACK, *options)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    arrivals(server, 60)
    os.kill(process.pid, stop)
    rows, messages = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "interrupted" in messages
    count = len(rows.splitlines())
    assert 50 < count < 3000 and rows.endswith("}\n")


def test_a_second_signal_ends_at_once(silent: Silent, tmp_path: Path) -> None:
    server = silent("127.0.0.1")
    port = server.getsockname()[1]
    targets = write_targets(tmp_path / "t.csv", [("127.0.0.1", f"w{i}.test", port) for i in range(50)])
    options = (
        "--per-address-rate",
        0,
        "--per-prefix-rate",
        0,
        "--timeout",
        WINDOW_S,
        "--segments",
        tmp_path / "seg",
    )
    command = argv("--targets", targets, *LOOPBACK, *options)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    arrivals(server, 50)
    process.send_signal(signal.SIGINT)
    # The kernel merges a second signal that arrives before the first is handled.
    until(lambda: pending(process.pid) == 0, "the prober to handle the first signal")
    time.sleep(0.5)
    assert process.poll() is None, "the prober must wait for open probes"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=PATIENCE_S)
    # Otherwise, the prober would wait for the probes until WINDOW_S after they were sent.
    assert (process.returncode, time.monotonic() - began < WINDOW_S - 2) == (130, True)
    assert "50 targets have no record" in messages


def test_datagrams_that_the_system_refuses_are_send_failed(tmp_path: Path) -> None:
    targets = write_targets(
        tmp_path / "t.csv", [("198.18.0.1", "a.test", 443), ("2001:db8::1", "b.test", 443)]
    )
    allow = ("--allow-net", "198.18.0.0/15", "--allow-net", "2001:db8::/32")
    # A network namespace without any route, with the lab's mark.
    marked = ["sh", "-c", 'ip link set lo alias firstflight-lab && exec "$@"', "sh"]
    probing = argv("--targets", targets, *allow)
    command = ["unshare", "--user", "--map-root-user", "--net", *marked, *probing]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [(row["outcome"], row["attempts"], row["sent_at"]) for row in rows] == [
        ("send_failed", 0, None)
    ] * 2
    assert all(row["detail"].startswith("the system refused to send: ") for row in rows)


def test_source_address_is_kept(probe: Probe, responder: int) -> None:
    done = probe([("127.8.0.1", "a.test", responder)], "--source", "127.0.0.77")
    assert (done.row("a.test")["src_ip"], done.row("a.test")["outcome"]) == ("127.0.0.77", "iack")
    wrong = probe([("::1", "a.test", responder)], "--source", "127.0.0.77")
    assert wrong.status == 2 and "IPv6" in wrong.messages


@pytest.mark.parametrize("through", ["native", "command line"])
def test_closed_standard_output_is_reported_and_nothing_is_sent(
    tmp_path: Path, silent: Silent, through: str
) -> None:
    server = silent("127.0.0.1")
    targets = write_targets(tmp_path / "t.csv", [("127.0.0.1", "a.test", server.getsockname()[1])])
    options = ["--targets", str(targets), *LOOPBACK, "--timeout", "0.2"]
    program = argv() if through == "native" else [str(Path(sys.executable).with_name("firstflight")), "probe"]
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *program]
    done = subprocess.run(
        [*closed, *options], stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "standard output is closed" in done.stderr and len(done.stderr.splitlines()) == 1
    assert datagrams(server) == []
    # With segments, the prober does not need standard output.
    with_segments = [*options, "--segments", str(tmp_path / "segments")]
    done = subprocess.run(
        [*closed, *with_segments], stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, len(datagrams(server))) == (0, 2), done.stderr
    assert list((tmp_path / "segments").glob("*.arrow"))
