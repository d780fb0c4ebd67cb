"""The lab's second DNS scenario: a resolve stage queries unbound, which queries the lab's name server."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firstflight.errors import UsageError
from firstflight.run.run import Run
from firstflight.system import binaries
from lab.declared import internet
from lab.declared.internet import Internet
from lab.declared.model import Host
from lab.expected import truth
from lab.hosts.services import apply_epoch, epoch_commands, services
from tests.lab_services.conftest import RunningWorld
from tests.lab_services.test_names import expected
from tests.lab_services.world import ServiceWorld, host

RESOLVER = """
[[host]]
name = "resolver"
kind = "resolver"
v4 = "198.18.0.54"
v6 = "2001:db8:0:54::1"
"""


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    assert shutil.which("unbound", path="/usr/sbin:/usr/bin"), (
        "the tests need unbound: apt-get install unbound"
    )
    folder = tmp_path_factory.mktemp("second-dns")
    (folder / "internet.toml").write_text(internet.DEFAULT.read_text() + RESOLVER)
    found = internet.load(folder / "internet.toml")
    world = ServiceWorld(folder, [host(found, "dns"), host(found, "resolver")], host(found, "resolver").v4)
    try:
        both = [
            service for service in services(found, folder / "state") if service.name in ("named", "unbound")
        ]
        assert [service.name for service in both] == ["named", "unbound"]
        world.start(both)
        yield RunningWorld(world, found, folder / "state")
    finally:
        world.close()


def rows_through(running: RunningWorld, tmp_path: Path, resolver: str) -> list[dict[str, Any]]:
    """Return the dns_answer rows from a resolve stage with all names in the lab."""
    (tmp_path / "names.txt").write_text("".join(f"{name}\n" for _, name in running.internet.names))
    (tmp_path / "rib.mrt").write_bytes(b"")
    (tmp_path / "campaign.toml").write_text(f"""[targets]
source = "file"
file = "names.txt"
[as_data]
rib = "file"
files = ["rib.mrt"]
[resolve]
resolver = "{resolver}"
[probe]
allow_net = ["198.18.0.0/15"]
[[vantage]]
name = "here"
""")
    program = [sys.executable, "-m", "cli"]
    env = {"FIRSTFLIGHT_RUNS": str(tmp_path / "runs")}
    made = running.world.run([sys.executable, "-c", _MAKE, str(tmp_path / "campaign.toml")], env=env)
    assert made.status == 0, made.stderr
    run = Run(tmp_path / "runs" / made.stdout.strip())
    place = ["--run", run.id, "--vantage", "here", "--repetition", "1"]
    for argv in (["targets", "--run", run.id], ["resolve", *place]):
        done = running.world.run([*program, "stage", *argv], env=env)
        assert done.status == 0, done.stderr
    found: list[dict[str, Any]] = pq.read_table(run.layout.dns_answer(run.key("here", 1))).to_pylist()
    return found


_MAKE = """
import sys
from firstflight import settings
from firstflight.run.run import Run
print(Run.create(*settings.load(__import__("pathlib").Path(sys.argv[1]))).id)
"""


def test_a_resolve_stage_through_unbound_finds_the_truth(second: RunningWorld, tmp_path: Path) -> None:
    lab = second.internet
    records = lab.records(1)
    declared = {line["domain"]: line["dns_status"] for line in truth.lines(lab)}
    rows = rows_through(second, tmp_path, host(lab, "resolver").v4)
    assert {row["resolver"] for row in rows} == {"198.18.0.54"}
    by_question: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_question.setdefault((row["domain"], row["qtype"]), []).append(row)
    assert len(by_question) == 3 * len(lab.names)
    for (name, qtype), found in by_question.items():
        wanted = expected(records, name, qtype)
        ends = [data for _, _, kind, data in wanted if kind == qtype]
        status = declared[name] if ends or declared[name] != "NOERROR" else "NODATA"
        assert {row["status"] for row in found} == {status}, (name, qtype)
        if qtype != "HTTPS":
            assert sorted(row["address"] for row in found if row["address"]) == sorted(ends), name
        chain = [data.rstrip(".") for _, _, kind, data in wanted if kind == "CNAME"]
        assert {tuple(row["cname_chain"] or ()) for row in found} == {tuple(chain)}, (name, qtype)


def test_an_epoch_is_seen_at_once(second: RunningWorld) -> None:
    lab = second.internet
    moved = sorted({r.name for r in set(lab.records(1)) - set(lab.records(2)) if r.type == "A"})
    assert moved
    questions = json.dumps([(name, "A") for name in moved])
    seen = {}
    try:
        for epoch in (1, 2):
            apply_epoch(lab, second.state, epoch)
            for _, argv in epoch_commands(lab, second.state):
                done = second.world.run(argv)
                assert done.status == 0, done.stderr
            answers = second.world.client("dns", host(lab, "resolver").v6, stdin=questions)
            seen[epoch] = {row[0]: row[3] for got in answers for row in got["answer"] if row[2] == "A"}
            addresses = {r.name: r.data for r in lab.records(epoch) if r.type == "A"}
            assert seen[epoch] == {name: addresses[name] for name in moved}
    finally:
        apply_epoch(lab, second.state, 1)
    assert seen[1] != seen[2]


def test_a_second_resolver_is_refused(tmp_path: Path) -> None:
    more: list[Host] = [Host(name, "resolver", "198.18.0.54", "2001:db8::54") for name in ("one", "other")]
    lab: Internet = internet.load()
    with pytest.raises(UsageError, match="2 hosts of kind 'resolver'"):
        services(dataclasses.replace(lab, hosts=(*lab.hosts, *more)), tmp_path / "state")


def test_the_configuration_of_the_documentation_is_valid(tmp_path: Path) -> None:
    text = (binaries.repository() / "docs" / "inputs.md").read_text()
    block = text[text.index("    server:\n") :].partition("\n\n")[0]
    (tmp_path / "unbound.conf").write_text("\n".join(line[4:] for line in block.splitlines()) + "\n")
    program = shutil.which("unbound-checkconf", path="/usr/sbin:/usr/bin")
    assert program is not None, "the tests need unbound: apt-get install unbound"
    argv = [program, str(tmp_path / "unbound.conf")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no errors" in done.stdout and not done.stderr
