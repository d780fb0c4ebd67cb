"""Versions with real servers: aioquic changes to version 2 if possible, quic-go never; quiche has only 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.declared.model import HttpAnswer
from tests.handshake.conftest import ENDS_S, HOST, Http3, connect
from tests.lab_servers.running import RunningServer, endpoint, running

ONE, TWO = "0x00000001", "0x6b3343cf"
NAME = "plain.http3.test"
COLUMNS = ("outcome", "version", "versions_offered", "versions_available", "version_change")


@pytest.fixture(scope="module")
def quic_go(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    answers = replace(endpoint("quic-go", "wait", None), http=HttpAnswer(200))
    with running(tmp_path_factory.mktemp("go"), "quic-go", [answers]) as found:
        yield found


@pytest.fixture(scope="module")
def quiche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    answers = replace(endpoint("quiche", "wait", None), http=HttpAnswer(200))
    with running(tmp_path_factory.mktemp("quiche"), "quiche", [answers]) as found:
        yield found


@pytest.mark.parametrize(
    ("offered", "version", "change"),
    [
        ("1", ONE, None),
        ("2", TWO, None),
        ("1,2", TWO, "compatible"),
        ("2,1", TWO, None),
    ],
)
def test_aioquic_takes_the_newest_that_is_offered(
    http3: Http3, tmp_path: Path, offered: str, version: str, change: str | None
) -> None:
    row = connect(tmp_path, [(HOST, NAME, http3.port)], "--version", offered).row(NAME)
    names = ",".join({"1": ONE, "2": TWO}[number] for number in offered.split(","))
    assert tuple(row[name] for name in COLUMNS) == ("done", version, names, f"{ONE},{TWO}", change), row
    assert (row["http"], row["status"]) == ("response", 200), row


def test_a_second_connection_keeps_the_version(http3: Http3, tmp_path: Path) -> None:
    options = ("--version", "1,2", "--second")
    row = connect(tmp_path, [(HOST, NAME, http3.port)], *options).row(NAME)
    assert (row["version"], row["version_change"]) == (TWO, "compatible"), row
    assert (row["second_outcome"], row["second_resumed"], row["second_http"]) == ("done", True, "response"), (
        row
    )


def test_a_change_of_version_goes_through_x25519mlkem768(http3: Http3, tmp_path: Path) -> None:
    options = ("--version", "1,2", "--key-share", "x25519mlkem768")
    row = connect(tmp_path, [(HOST, NAME, http3.port)], *options).row(NAME)
    assert (row["outcome"], row["version"], row["hello_datagrams"]) == ("done", TWO, 2), row


@pytest.mark.parametrize(("offered", "version"), [("1,2", ONE), ("2,1", TWO), ("2", TWO)])
def test_quic_go_keeps_the_version_of_the_first_packet(
    quic_go: RunningServer, tmp_path: Path, offered: str, version: str
) -> None:
    name = "wait.small.test"
    options = ("--version", offered, "--timeout", ENDS_S)
    row = connect(tmp_path, [(HOST, name, quic_go.port)], *options).row(name)
    found = (row["outcome"], row["version"], row["version_change"], row["stage"])
    assert found == ("done", version, None, "response"), row


def test_version_negotiation_leads_to_a_second_attempt(quiche: RunningServer, tmp_path: Path) -> None:
    name = "wait.small.test"
    targets = [(HOST, name, quiche.port)]
    row = connect(tmp_path, targets, "--version", "2,1", "--timeout", ENDS_S).row(name)
    assert (row["outcome"], row["version"], row["version_change"]) == ("done", ONE, "incompatible"), row
    assert ONE in row["version_list"].split(",") and row["first_answer"] == "coalesced", row
    alone = connect(tmp_path, targets, "--version", "2", "--timeout", ENDS_S).row(name)
    assert (alone["outcome"], alone["version"], alone["stage"]) == ("version_negotiation", TWO, "sent"), alone
    assert (alone["version_list"], alone["version_change"]) == (row["version_list"], None)
