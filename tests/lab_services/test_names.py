"""The name server serves the declared records of every name, and moves names at epochs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import UsageError
from lab.declared.internet import Internet
from lab.declared.model import DnsRecord
from lab.hosts.services import WEB_NAMES, apply_epoch, epoch_commands

from .conftest import RunningWorld
from .world import host

KINDS = ("A", "AAAA", "HTTPS")


def ask(running: RunningWorld, questions: list[tuple[str, str]], *, v6: bool = False) -> list[dict[str, Any]]:
    names = host(running.internet, "dns")
    answers = running.world.client("dns", names.v6 if v6 else names.v4, stdin=json.dumps(questions))
    assert len(answers) == len(questions)
    return list(answers)


def expected(records: list[DnsRecord], name: str, kind: str) -> list[list[Any]]:
    """Return a resolver's answer section: the CNAME chain, then the records with the type."""
    rows: list[list[Any]] = []
    while alias := [r for r in records if r.name == name and r.type == "CNAME"]:
        rows.append([name, alias[0].ttl, "CNAME", alias[0].data + "."])
        name = alias[0].data
    return rows + sorted(
        [r.name, r.ttl, r.type, r.data] for r in records if r.name == name and r.type == kind
    )


def status(internet: Internet, name: str) -> str:
    return "SERVFAIL" if name in internet.servfail else "NXDOMAIN" if name in internet.nxdomain else "NOERROR"


def check_all(running: RunningWorld, epoch: int) -> None:
    internet = running.internet
    records = internet.records(epoch)
    questions = [(name, kind) for _, name in internet.names for kind in KINDS]
    for (name, kind), got in zip(questions, ask(running, questions), strict=True):
        assert got["status"] == status(internet, name), (name, kind)
        rows = [[owner, ttl, type_, data.replace('"', "")] for owner, ttl, type_, data in got["answer"]]
        assert rows == expected(records, name, kind), (name, kind)


def test_every_name_has_the_declared_answers(running: RunningWorld) -> None:
    check_all(running, 1)


def test_an_epoch_moves_its_names_and_returns(running: RunningWorld) -> None:
    internet = running.internet
    served: dict[int, list[Any]] = {}
    questions = [(name, "A") for _, name in internet.names]
    try:
        for epoch in (2, 3, 2, 1):
            apply_epoch(internet, running.state, epoch)
            for _, argv in epoch_commands(internet, running.state):
                done = running.world.run(argv)
                assert done.status == 0, done.stderr
            # The test need not wait, because the command returns only when the zones are served.
            answers = [got["answer"] for got in ask(running, questions)]
            assert answers == served.setdefault(epoch, answers)
    finally:
        apply_epoch(internet, running.state, 1)
    check_all(running, 1)
    moved = [
        record for record, later_record in zip(served[1], served[2], strict=True) if record != later_record
    ]
    declared = set(internet.records(1)) - set(internet.records(2))
    assert len(moved) == len(declared) > 0
    assert served[2] != served[3]


def test_an_epoch_that_does_not_exist_is_refused(running: RunningWorld) -> None:
    with pytest.raises(UsageError, match="choose 1 to"):
        apply_epoch(running.internet, running.state, running.internet.epochs + 1)


def test_unknown_names_do_not_exist_at_once(running: RunningWorld) -> None:
    questions = [("example.com", "A"), ("no.such.zone.test", "AAAA"), ("x.invalid", "HTTPS")]
    seconds = []
    for got in ask(running, [*questions, ("1.0.18.198.in-addr.arpa", "PTR")]):
        assert got["status"] == "NXDOMAIN"
        assert got["answer"] == []
        seconds.append(got["seconds"])
    # A recursive lookup would take seconds for each.
    assert min(seconds) < 1


def test_a_broken_zone_fails_every_time(running: RunningWorld) -> None:
    name = running.internet.servfail[0]
    answers = ask(running, [(name, "A")] * 5)
    assert {got["status"] for got in answers} == {"SERVFAIL"}
    assert min(got["seconds"] for got in answers) < 1


def test_the_order_of_addresses_never_changes(running: RunningWorld) -> None:
    answers = [got["answer"] for got in ask(running, [("two-addresses.odd.test", "A")] * 20)]
    assert len(answers[0]) == 2
    assert all(answer == answers[0] for answer in answers)


def test_list_and_archive_hosts_have_their_real_names(running: RunningWorld) -> None:
    web = host(running.internet, "web")
    for name in WEB_NAMES:
        v4, v6 = ask(running, [(name, "A"), (name, "AAAA")], v6=True)
        assert [row[3] for row in v4["answer"]] == [web.v4]
        assert [row[3] for row in v6["answer"]] == [web.v6]


def test_reload_without_a_server_is_one_sentence(running: RunningWorld, tmp_path: Path) -> None:
    shutil.copytree(running.state / "dns", tmp_path / "dns")
    control = tmp_path / "dns" / "rndc.conf"
    control.write_text(control.read_text().replace("default-port 953", "default-port 954"))
    (_, argv), *_ = epoch_commands(running.internet, tmp_path)
    argv[argv.index("--server") + 1] = "127.0.0.99"  # there is neither a name server nor a control port
    done = running.world.run(argv)
    assert done.status == 1
    assert done.stderr.startswith("BIND cannot reload")
    assert done.stderr.count("\n") == 1
