"""Clients in standalone packages: refused input, requests over loopback, and trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissector.qlog import read
from lab.hosts.certificates import FLAWS, Flaw, make_authority
from testbed import stacks
from testbed.trials import compare_runs, series
from tests import drawn
from tests.testbed import client_checks as checks
from tests.testbed import loopback
from tests.testbed.experiments import find, lines
from tests.testbed.guests.test_trials import run

APART = {name: stack.client for name, stack in stacks.load().items() if stack.client and stack.client.package}
CLIENTS = list(APART)
PROGRAMS = [str(client.program) for client in APART.values()]
# A second build of these clients writes logs; it has the same arguments.
LOGGING = [name for name, stack in stacks.load().items() if stack.logging]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("arguments", "given", "message"), checks.WRONG)
def test_errors_are_one_line(program: str, arguments: list[str], given: str, message: str) -> None:
    checks.refuses_in_one_line(program, arguments, given, message)


@pytest.mark.parametrize("program", PROGRAMS)
def test_only_permitted_addresses_are_contacted(program: str) -> None:
    for networks in checks.ELSEWHERE:
        checks.contacts_no_other_address(program, networks)
    checks.needs_its_roots(program)
    checks.says_what_it_is(program)
    checks.takes_the_networks_of_the_policy(program)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", ["aioquic", "quiche"])
def test_a_response_is_complete(tmp_path: Path, client: str, server: str) -> None:
    """Its body, the secrets of the connection, and its log, if it writes one, which names the connection."""
    logs, keys = tmp_path / "logs", tmp_path / "keys"
    logs.mkdir()
    keys.write_text("EARLIER\n", encoding="utf-8")
    environment = {"SSLKEYLOGFILE": str(keys), "QLOGDIR": str(logs)}
    given = loopback.configuration(tmp_path, server, 300_000)
    found = loopback.answer(tmp_path, client, server, given, environment=environment)
    assert (found["end"], found["detail"], found["status"]) == ("complete", None, 200)
    assert found["body_bytes"] == 300_000
    assert 0 < found["tls_us"] < found["duration_us"]
    labels = [line.split()[0] for line in keys.read_text(encoding="utf-8").splitlines()]
    assert labels[0] == "EARLIER"
    assert {f"CLIENT_{kind}" for kind in ("HANDSHAKE_TRAFFIC_SECRET", "TRAFFIC_SECRET_0")} <= set(labels)
    assert named_logs(logs) == int(stacks.find(client).qlog)


def named_logs(folder: Path) -> int:
    """Check that logs are a client's and name their connections, and return how many there are."""
    written = list(folder.iterdir())
    for log in written:
        rows = list(read.metrics(log))
        assert rows and {row["odcid"] for row in rows} == {log.name.partition("_")[0]}
        assert {row["side"] for row in rows} == {"client"}
    return len(written)


@pytest.mark.parametrize("client", LOGGING)
def test_a_build_that_logs_does_what_the_other_does(tmp_path: Path, client: str) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    given = loopback.configuration(tmp_path, "quiche", 300_000)
    both = [
        loopback.answer(tmp_path, client, "quiche", given, environment={"QLOGDIR": str(logs)}, logged=logged)
        for logged in (False, True)
    ]
    assert [(answer["end"], answer["status"], answer["body_bytes"]) for answer in both] == [
        ("complete", 200, 300_000)
    ] * 2
    assert named_logs(logs) == 1


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("flaw", FLAWS)
def test_a_certificate_is_verified(tmp_path: Path, client: str, flaw: Flaw) -> None:
    given = loopback.configuration(tmp_path, "quiche", flaw=flaw)
    found = loopback.answer(tmp_path, client, "quiche", given)
    assert found["end"] == "connect_failed"
    assert found["status"] is None


@pytest.mark.parametrize("client", CLIENTS)
def test_no_other_roots_are_trusted(tmp_path: Path, client: str) -> None:
    """The client trusts neither the machine's roots nor the roots that its environment names for OpenSSL."""
    given = loopback.configuration(tmp_path / "theirs", "quiche")
    trusted = str(make_authority(tmp_path / "theirs").path)
    found = loopback.answer(tmp_path, client, "quiche", given, environment={"SSL_CERT_FILE": trusted})
    assert found["end"] == "connect_failed"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_request_takes_no_longer_than_it_may(tmp_path: Path, client: str) -> None:
    """The handshake does not end, because the certificate is delayed for longer."""
    given = loopback.configuration(tmp_path, "quiche")
    delay_us = 20_000_000
    given["endpoints"][0]["delay_us"] = delay_us
    found = loopback.answer(tmp_path, client, "quiche", given, timeout_s=0.5)
    assert found["end"] == "connect_failed"
    assert "timed out" in found["detail"]
    assert 499_000 <= found["duration_us"] < delay_us


@pytest.mark.drawn
@pytest.mark.parametrize("client", CLIENTS)
def test_it_completes_with_each_server(tmp_path: Path, client: str) -> None:
    """Figure 5, with both answers."""
    servers = drawn.few(f"servers of {client}", ("aioquic", "quiche", "quic-go", "quinn", "s2n-quic"), 2)
    cells = ",".join(f"{client}-{server}-{answer}-9ms" for server in servers for answer in ("iack", "wfc"))
    run(tmp_path, "iack-ttfb", "--seeds", "1", "--cells", cells)
    rows = series.rows(tmp_path, "iack-ttfb")
    assert {row["outcome"] for row in rows} == {"done"}
    assert {(row["server"], row["answering"]) for row in rows} == {
        (server, answer) for server in servers for answer in ("iack", "wfc")
    }
    assert {row["client_version"] for row in rows} == {stacks.find(client).version.known()}
    found = lines(find("iack-ttfb"), rows)
    assert {pair.server: pair.outcomes for pair in found} == dict.fromkeys(servers, "done 2")


@pytest.mark.parametrize("client", CLIENTS)
def test_two_runs_are_the_same_bytes(client: str) -> None:
    cells = [
        cell
        for cell in find("iack-ttfb").cells()
        if (cell.client, cell.server) == (client, "quiche") and cell.answering == "iack"
    ]
    (found,) = compare_runs.run_twice("iack-ttfb", cells, 2, 2)
    assert found.same and found.outcomes == {"done"}, found
