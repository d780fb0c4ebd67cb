"""Sweeps with ZMap: the servers found, the addresses never contacted, and the refused arguments."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, UsageError
from firstflight.shard import WHOLE, Shard, all_of
from scanner.external import forced_negotiation as forced
from scanner.external import zmap
from scanner.external.sweep import Sweep
from tests.external.sweep import ECHO, QUIC, SILENT, TREE, swept

LAB = ("--allow-net", "198.18.0.0/15")
OURS, THEIRS = b"12345678", b"abcdefgh"


def scan(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run `firstflight scan` in its test network; return the result."""
    return swept(folder, "scan", "--engine", "zmap", *arguments)


def test_addresses_that_speak_quic(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked.conf"
    blocked.write_text(f"{SILENT}\n198.18.48.5-7\n")
    options = ("--network", "198.18.48.0/29", "--blocklist", str(blocked), "--cooldown", "10")
    happened = scan(tmp_path, *options, *LAB, "--format", "jsonl")
    assert (happened["status"], happened["icmp"]) == (0, []), happened
    # Each address gets one datagram, and a blocked address gets no datagram. A host that echoes datagrams
    # is not reported as a server.
    probed = ("198.18.48.0", *QUIC, ECHO)
    assert happened["datagrams"] == {f"{address}.443": 1 for address in probed}
    found = [json.loads(line) for line in happened["stdout"].splitlines()]
    assert sorted(row["ip"] for row in found) == list(QUIC)
    for row in found:
        assert "0x00000001" in row["versions"] and row["port"] == 443 and row["ttl"] == 64, row
        assert 0 < row["received_at"] < 2**63


def test_output_is_a_target_list(tmp_path: Path) -> None:
    happened = scan(tmp_path, "--network", f"{QUIC[0]}/32", "--cooldown", "10", *LAB)
    assert happened["stdout"] == f"ip,domain,port\n{QUIC[0]},,443\n"
    assert happened["stderr"].endswith("1 of 1 addresses answered\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--network", "198.18.48.0/29"), "--contact is required"),
        (("--network", "198.18.48.0/29", "--allow-net", "198.18.48.0/30"), "--contact is required"),
        (LAB, "needs --network"),
        (("--network", "198.18.48.1/29", *LAB), "has host bits set"),
        (("--network", "2001:db8::/64", *LAB), "only sweeps IPv4"),
        (("--network", "0.0.0.0/0", "--contact", "x@example.org"), "/8 or smaller"),
        (("--network", "10.0.0.0/8", "--allow-net", "8.8.8.0/24"), "not inside loopback"),
        (("--network", "198.18.48.0/29", "--targets", __file__, *LAB), "option of --engine qscanner"),
        (("--network", "198.18.48.0/29", "--ports", "1-2", *LAB), "between 1024 and 65535"),
        (("--network", "198.18.48.0/29", "--program", "no-such-zmap", "--rate", "9", *LAB), "was not found"),
        (("--network", "198.18.48.0/29", "--rate", "0.5", *LAB), "at least 1 packet a second"),
    ],
)
def test_refused_scans_send_nothing(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    happened = scan(tmp_path, *arguments)
    assert happened["status"] == 2 and says in happened["stderr"], happened
    assert happened["datagrams"] == {} and len(happened["stderr"].splitlines()) == 1


def test_dry_run(tmp_path: Path) -> None:
    happened = scan(tmp_path, "--network", "198.18.48.0/24", "--dry-run", "--rate", "10", *LAB)
    assert happened["stdout"] == "256 addresses, 0 of them blocked; 10 a second, 26 s; nothing was sent\n"
    assert happened["datagrams"] == {}


@pytest.mark.parametrize(
    ("networks", "blocked", "rate", "fair"),
    [
        (["10.0.0.0/24"], "", 100, 20),
        (["10.0.0.0/24"], "", 7.9, 7),
        (["10.0.0.0/22"], "", 100, 80),
        (["10.0.0.0/16"], "", 100, 100),
        (["10.0.0.0/30", "10.0.1.0/30"], "", 100, 40),
        (["10.0.0.0/25", "10.0.0.128/25"], "", 100, 20),
        (["10.0.0.1/32", "10.0.0.3/32", "10.0.0.5/32"], "", 100, 20),
        # One /24 has five addresses for each address in the other /24.
        (["10.0.0.0/30", "10.0.0.8/32", "10.0.1.0/32"], "", 100, 24),
        (["10.0.0.0/16"], "10.0.1.0-10.0.255.255", 100, 20),
        (["10.0.0.0/16"], "10.0.0.128-10.0.255.127", 100, 40),
        (["10.0.0.0/16"], "10.0.0.0/16", 100, 100),
    ],
)
def test_rate_keeps_the_limit_of_prefixes(
    tmp_path: Path, networks: list[str], blocked: str, rate: float, fair: int
) -> None:
    listed = tmp_path / "block.conf"
    listed.write_text(f"{blocked}\n")
    permitted = Permitted([listed], [], ["10.0.0.0/8"])
    assert Sweep(networks, rate=rate).fair_rate(permitted) == fair


@pytest.mark.parametrize(
    ("networks", "count", "parts"),
    [
        (["10.0.0.0/30"], 2, [["10.0.0.0/31"], ["10.0.0.2/31"]]),
        (["10.0.0.0/30"], 3, [["10.0.0.0/32"], ["10.0.0.1/32"], ["10.0.0.2/31"]]),
        (["10.0.0.8/31", "10.0.0.0/32"], 2, [["10.0.0.0/32"], ["10.0.0.8/31"]]),
        (["10.0.0.8/32", "10.0.0.0/31"], 2, [["10.0.0.0/32"], ["10.0.0.1/32", "10.0.0.8/32"]]),
        (["10.0.0.7/32"], 2, [[], ["10.0.0.7/32"]]),
    ],
)
def test_shards_have_separate_addresses(networks: list[str], count: int, parts: list[list[str]]) -> None:
    sweeps = [Sweep(networks, shard=shard) for shard in all_of(count)]
    assert [[str(network) for network in sweep.parsed()] for sweep in sweeps] == parts


def test_a_shard_without_permitted_addresses_does_not_start_zmap(tmp_path: Path) -> None:
    sweep = replace(program(tmp_path, f"touch {tmp_path}/started"), networks=["10.0.0.7/32"])
    for shard, blocked in ((Shard(0, 2), ""), (WHOLE, "10.0.0.0/8")):
        (tmp_path / "blocked").write_text(f"{blocked}\n")
        permitted = Permitted([tmp_path / "blocked"], [], ["10.0.0.0/8"])
        assert list(zmap.run(replace(sweep, shard=shard), permitted)) == []
    assert not (tmp_path / "started").exists()


def test_outside_of_the_lab_nothing_is_swept() -> None:
    with pytest.raises(UsageError, match="is not the lab"):
        Sweep(["198.0.0.0/8"]).parsed()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can set file capabilities")
def test_a_zmap_that_outlives_its_parent_is_refused() -> None:
    code = "import sys; from scanner.external import zmap; zmap.check_program(sys.argv[1])"
    # Another user, who may read the modules.
    rights = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    other = ("setpriv", "--reuid=65534", "--clear-groups", *rights)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copy("/bin/true", folder))

        def said(*user: str) -> str:
            argv = [*user, sys.executable, "-c", code, str(path)]
            return subprocess.run(argv, cwd=TREE, capture_output=True, text=True).stderr

        Path(folder).chmod(0o755)
        assert said(*other) == ""
        # struct vfs_cap_data (capabilities(7)): version 2, effective; CAP_NET_RAW is permitted.
        os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
        assert "so it would send on if this process were killed" in said(*other)
        assert said() == ""
        os.removexattr(path, "security.capability")
        path.chmod(0o4755)
        assert "so it would send on" in said(*other)


def program(folder: Path, script: str) -> Sweep:
    """Return a sweep by a script, which sends nothing."""
    path = folder / "script"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    sweep = Sweep(["10.0.0.0/30"], cooldown_s=0, program=str(path))
    return replace(sweep, interface="lo", source="127.0.0.1", gateway_mac="00:00:00:00:00:00")


def test_a_zmap_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    permitted = Permitted([], [], ["10.0.0.0/8"])
    monkeypatch.setattr(zmap, "SPARE_S", 0.5)
    for script in ("exec sleep 600", "exec >&-; exec sleep 600"):
        with pytest.raises(FirstflightError, match="did not end within 1 s"):
            list(zmap.run(program(tmp_path, script), permitted))
    monkeypatch.setattr(zmap, "SPARE_S", 60)
    # More messages than a pipe holds.
    verbose = program(
        tmp_path, "head -c 200000 /dev/zero >&2; echo; echo '[FATAL] zmap: no socket' >&2; exit 1"
    )
    with pytest.raises(FirstflightError, match=r"ended with status 1: .*no socket"):
        list(zmap.run(verbose, permitted))


def test_a_closed_sweep_stops_zmap(tmp_path: Path) -> None:
    answer = f"10.0.0.1,443,64,1,0,{(HEAD + bytes(3) + bytes([1])).hex()}"
    sweep = program(tmp_path, f"echo $$ > {tmp_path}/pid; echo; echo {answer}; exec sleep 600")
    sweep = replace(sweep, source_id=OURS, destination_id=THEIRS)
    speakers = zmap.run(sweep, Permitted([], [], ["10.0.0.0/8"]))
    assert next(speakers).ip == "10.0.0.1"
    speakers.close()
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_datagram() -> None:
    sent = forced.datagram(OURS, THEIRS, "research@example.org")
    assert len(sent) == 1200
    assert sent[:24] == b"\xc0\x1a\x2a\x3a\x4a\x08" + THEIRS + b"\x08" + OURS + b"\x00"
    assert int.from_bytes(sent[24:26]) & 0x3FFF == 1200 - 26
    assert b"contact: research@example.org\0" in sent
    assert len(forced.datagram(OURS, THEIRS, "x" * 2000)) == 1200


HEAD = b"\x80\0\0\0\0\x08" + OURS + b"\x08" + THEIRS


@pytest.mark.parametrize(
    ("answer", "listed"),
    [
        (HEAD + b"\0\0\0\x01", [1]),
        (b"\xff" + HEAD[1:] + b"\x0a\x1a\x2a\x3a\0\0\0\x01", [0x0A1A2A3A, 1]),
        (HEAD, None),
        (HEAD + b"\0\0\0", None),
        (HEAD + b"\0\0\0\x01\0", None),
        (b"\x7f" + HEAD[1:] + b"\0\0\0\x01", None),
        (HEAD[:4] + b"\x01" + HEAD[5:] + b"\0\0\0\x01", None),
        (HEAD.replace(OURS, THEIRS) + b"\0\0\0\x01", None),
        (HEAD.replace(THEIRS, OURS) + b"\0\0\0\x01", None),
        (HEAD[:-1], None),
        (b"", None),
    ],
)
def test_versions_of_an_answer(answer: bytes, listed: list[int] | None) -> None:
    assert forced.versions(answer, OURS, THEIRS) == listed
