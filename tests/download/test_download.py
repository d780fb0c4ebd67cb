"""`firstflight download` against nginx and a server of HTTP/3: every row as declared."""

from __future__ import annotations

import json
import signal
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from downloader.option_sets import SETS, WARMUP
from tests.download.world import NAME, RTT_US, SERVER_V4, SERVER_V6, SIZES, TCP_ONLY, DownloadWorld
from tests.waiting import until

TCP = [name for name, option_set in SETS.items() if not option_set.is_quic and name != WARMUP]
QUIC = [name for name, option_set in SETS.items() if option_set.is_quic]
CAP = 3_000_000


def by_set(rows: list[dict[str, Any]], url: str) -> dict[str, dict[str, Any]]:
    """Return a file's rows, keyed by option set."""
    return {row["set"]: row for row in rows if row["url"] == url}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("all")


@pytest.fixture(scope="module")
def rows(world: DownloadWorld, folder: Path) -> list[dict[str, Any]]:
    """All sets, of two files, one over IPv4 and one over IPv6."""
    files = [("one", SERVER_V4), ("twenty", SERVER_V6)]
    found, done = world.download(
        folder, files, ",".join([*TCP, *QUIC]), "--max-bytes", CAP, "--capture", folder / "taken"
    )
    # Both files have the same name but different addresses, so each is a separate target.
    assert done.returncode == 0, done.stderr
    return found


@pytest.mark.parametrize(
    ("path", "ip", "outcome", "body"),
    [("one", SERVER_V4, "done", SIZES["one"]), ("twenty", SERVER_V6, "stopped_limit", CAP)],
)
@pytest.mark.parametrize("name", SETS)
def test_every_set(
    world: DownloadWorld, rows: list[dict[str, Any]], name: str, path: str, ip: str, outcome: str, body: int
) -> None:
    row = by_set(rows, world.url(path))[name]
    assert (row["outcome"], row["detail"], row["ip"], row["domain"]) == (outcome, None, ip, NAME)
    assert (row["status"], row["body_bytes"], row["content_length"]) == (200, body, SIZES[path])
    assert row["tls_version"] == "TLSv1.3"
    assert row["tls_verified"] is True
    assert row["http_version"] == SETS[name].http
    assert (row["client"], row["protocol"]) == (
        SETS[name].client,
        "quic" if SETS[name].http == "3" else "tcp",
    )
    assert row["client_version"]
    assert row["quic_capable"] is (None if name == "warmup" else True)
    assert row["receive_buffer"] > 0
    assert row["cpu_us"] > 0


@pytest.mark.parametrize("name", [WARMUP, *TCP])
def test_options_of_tcp_are_those_of_the_set(
    world: DownloadWorld, rows: list[dict[str, Any]], name: str
) -> None:
    """The server's kernel agrees to exactly the offered options (RFC 9293, 7323, 2018, 3168)."""
    option_set, row = SETS[name], by_set(rows, world.url("one"))[name]
    assert row["options_as_set"] is True
    assert row["sack_server"] is option_set.sack
    assert row["ecn_server"] is option_set.ecn
    assert (row["wscale_server"] is not None) is (option_set.window_scale is not None)
    assert row["timestamps_server"] is True
    assert row["mss_server"] == 1460
    assert row["rtt_mean_us"] >= RTT_US
    assert row["capture_file"] == f"{name}.pcap"


@pytest.mark.parametrize("name", QUIC)
def test_quic_has_its_capture(world: DownloadWorld, rows: list[dict[str, Any]], name: str) -> None:
    row = by_set(rows, world.url("one"))[name]
    assert row["options_as_set"] is None
    assert row["capture_file"] == f"{name}.pcap"
    assert row["application_goodput_bps"] > 0, "its keys open the capture"
    assert row["udp_drops"] is not None


def test_times_are_in_their_order(rows: list[dict[str, Any]]) -> None:
    """A round trip for the connection, one for TLS 1.3, one for the response; QUIC saves the first."""
    for row in rows:
        quic = SETS[row["set"]].protocol == "udp"
        trips = 1 if quic else 2
        if not quic:
            assert row["connect_us"] >= RTT_US
        assert row["tls_us"] >= trips * RTT_US
        assert row["first_byte_us"] >= (trips + 1) * RTT_US
        assert row["duration_us"] >= row["first_byte_us"]
        assert row["started_at"] <= row["flow_started_at"] <= row["started_at"] + row["duration_us"] * 1000


def test_without_scaling_a_window_is_64_kib(world: DownloadWorld, rows: list[dict[str, Any]]) -> None:
    """1 MB takes at least 16 round trips of 65,535 bytes, whatever the congestion window does.

    test_throughput checks that a set with window scaling needs less time. There the link's log has the
    machine's delays.
    """
    trips = SIZES["one"] / 65_535
    assert by_set(rows, world.url("one"))["bl"]["duration_us"] >= trips * RTT_US


@pytest.mark.parametrize("name", SETS)
def test_throughput_is_that_of_the_capture(
    world: DownloadWorld, folder: Path, rows: list[dict[str, Any]], name: str
) -> None:
    """Both directions' IP packets, handshake and headers included, over their time, as tshark reads them."""
    row = by_set(rows, world.url("one"))[name]
    fields = [f"-e{field}" for field in ("frame.time_epoch", "ip.len", "tcp.port", "udp.port")]
    argv = ["tshark", "-r", folder / "taken" / row["capture_file"], "-Tfields", *fields]
    argv += ["-Y", f"ip.addr == {SERVER_V4} && !icmp"]
    flows: dict[str, list[tuple[Decimal, int]]] = {}
    for line in subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines():
        time_s, length, *ports = line.split("\t")
        (client,) = {*",".join(filter(None, ports)).split(",")} - {"443"}
        flows.setdefault(client, []).append((Decimal(time_s), int(length)))
    packets = max(flows.values(), key=lambda flow: sum(length for _, length in flow))
    total = sum(length for _, length in packets)
    assert total > SIZES["one"]
    throughput = 8 * total / float(packets[-1][0] - packets[0][0])
    assert row["anrw_throughput_bps"] == pytest.approx(throughput, rel=1e-6)


def test_the_warmup_is_first_and_the_rest_is_drawn(world: DownloadWorld, tmp_path: Path) -> None:
    sets = ["bl", "ecn", "sack", "ws14", "all14"]

    def orders(folder: Path, *more: object) -> list[list[str]]:
        files = [("small", SERVER_V4), ("small", SERVER_V6)]
        found, done = world.download(folder, files, ",".join(sets), *more)
        assert done.returncode == 0, done.stderr
        assert [row["position"] for row in found] == [0, 1, 2, 3, 4, 5] * 2
        return [[row["set"] for row in found if row["ip"] == ip] for _, ip in files]

    drawn = orders(tmp_path / "drawn", "--seed", 5)
    assert drawn == orders(tmp_path / "again", "--seed", 5)
    assert drawn[0] != drawn[1]
    assert orders(tmp_path / "fixed", "--seed", 5, "--fixed-order") == [["warmup", *sets]] * 2
    assert all(order[0] == "warmup" and sorted(order[1:]) == sorted(sets) for order in drawn)


@pytest.mark.parametrize(
    ("path", "ip", "first", "others"),
    [
        ("gone", SERVER_V4, "http_error", "skipped"),
        ("missing", SERVER_V4, "http_error", "skipped"),
        ("human", SERVER_V4, "challenge", "skipped"),
        ("moved", SERVER_V4, "redirect", "skipped"),
        (f"https://{NAME}:444/small", SERVER_V4, "connect_failed", "skipped"),
        ("https://files.elsewhere.test/small", SERVER_V4, "tls_failed", "skipped"),
        ("small", "", "no_address", "no_address"),
        ("small", "198.18.9.77", "blocked", "blocked"),
    ],
)
def test_a_run_whose_warmup_fails(
    world: DownloadWorld, tmp_path: Path, path: str, ip: str, first: str, others: str
) -> None:
    blocked = tmp_path / "blocked.txt"
    blocked.write_text("198.18.9.77\n")
    found, done = world.download(
        tmp_path / "run", [(path, ip)], "bl,quiche", "--blocklist", blocked, "--fixed-order"
    )
    assert done.returncode == 0, done.stderr
    assert [row["outcome"] for row in found] == [first, others, others]
    assert [row["position"] for row in found] == [0, 1, 2]
    for row in found:
        assert row["body_bytes"] == 0 or row["status"] != 200
        assert (row["started_at"] is None) == (row["outcome"] in ("no_address", "blocked", "skipped"))
    if first == "tls_failed":
        assert found[0]["tls_verified"] is False
    if first == "challenge":
        assert (found[0]["status"], found[0]["detail"]) == (403, "cf-mitigated: challenge")


def test_a_contact_that_is_not_ascii(world: DownloadWorld, tmp_path: Path) -> None:
    log = world.folder / "access.log"
    before = len(log.read_text().splitlines())
    found, done = world.download(
        tmp_path / "run", [("small", SERVER_V4)], "bl,quiche", "--contact", "Jörg <j@x.test>"
    )
    assert done.returncode == 0, done.stderr
    assert [row["outcome"] for row in found] == ["done"] * 3

    def requests() -> list[str]:
        return log.read_text().splitlines()[before:]

    until(lambda: len(requests()) == 2, "both requests in the server's log")
    assert all("(J?rg <j@x.test>)" in line for line in requests())


def test_a_server_without_quic(world: DownloadWorld, tmp_path: Path) -> None:
    url = f"https://{NAME}:{TCP_ONLY}/small"
    found, done = world.download(
        tmp_path / "run", [(url, SERVER_V4)], ",".join(["bl", *QUIC]), "--timeout", 5
    )
    assert done.returncode == 0, done.stderr
    outcomes = {row["set"]: row["outcome"] for row in found}
    assert outcomes == {"warmup": "done", "bl": "done"} | dict.fromkeys(QUIC, "skipped")
    assert {row["quic_capable"] for row in found if row["set"] != "warmup"} == {False}
    reasons = {row["detail"] for row in found if row["set"] in QUIC}
    assert len(reasons) == 1 and str(*reasons).startswith("no answer to HEAD over HTTP/3: ")
    assert by_set(found, url)["bl"]["detail"] is None


def test_a_missing_file_over_http3(world: DownloadWorld, tmp_path: Path) -> None:
    """nginx has it and promises HTTP/3; the server of HTTP/3 answers, and does not have it."""
    found, done = world.download(tmp_path / "run", [("tcp_only", SERVER_V4)], "bl,libcurl")
    assert done.returncode == 0, done.stderr
    rows = {row["set"]: row for row in found}
    assert (rows["bl"]["outcome"], rows["bl"]["quic_capable"]) == ("done", False)
    assert rows["bl"]["alt_svc"] == 'h3=":443"'
    assert (rows["libcurl"]["outcome"], rows["libcurl"]["started_at"]) == ("skipped", None)
    assert rows["libcurl"]["detail"] == "HEAD over HTTP/3 brings status 404"


def test_without_a_quic_set_http3_is_not_requested(world: DownloadWorld, tmp_path: Path) -> None:
    found, done = world.download(tmp_path / "run", [("small", SERVER_V4)], "bl", "--capture", tmp_path / "t")
    assert done.returncode == 0, done.stderr
    assert [row["quic_capable"] for row in found] == [None, None]
    assert not (tmp_path / "t" / "head.log").exists()


def test_a_file_that_changes(world: DownloadWorld, tmp_path: Path) -> None:
    """nginx makes ETag and length of the file as it is: between two downloads it is replaced."""
    changing = world.folder / "www" / "changing"
    changing.write_bytes(b"1" * 1000)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "t.csv").write_text(f"url,ip\n{world.url('changing')},{SERVER_V4}\n")
    process = world.start(
        *("download", "--targets", folder / "t.csv", "--sets", "bl,ecn", "--roots", world.roots),
        *("--capture", folder / "taken", "--rate", 0.1, "--allow-net", "198.18.0.0/15"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    # The next download starts ten seconds after the warm-up.
    answers = folder / "taken" / "answers.jsonl"
    until(lambda: answers.is_file() and answers.read_bytes().count(b"\n") == 1, "the warm-up")
    changing.write_bytes(b"2" * 2000)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert [json.loads(line)["outcome"] for line in out.splitlines()] == ["done", "changed", "changed"]


def test_ctrl_c_leaves_a_row_for_each_download(world: DownloadWorld, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"url,ip\n{world.url('small')},{SERVER_V4}\n")
    process = world.start(
        *("download", "--targets", tmp_path / "t.csv", "--sets", "bl,ecn,sack", "--roots", world.roots),
        *("--capture", tmp_path / "taken", "--rate", 0.01, "--allow-net", "198.18.0.0/15"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    answers = tmp_path / "taken" / "answers.jsonl"
    until(lambda: answers.is_file() and answers.read_bytes().count(b"\n") == 1, "the warm-up")
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate()
    assert process.returncode == 130, errors
    found = [json.loads(line)["outcome"] for line in out.splitlines()]
    assert found == ["done", "skipped", "skipped", "skipped"]


def test_nothing_of_the_machine_is_changed(world: DownloadWorld, tmp_path: Path) -> None:
    """A download leaves the vantage point's network settings, links and rules unchanged."""
    script = (
        "sysctl -a 2>/dev/null | grep '^net' | grep -v 'conntrack_count\\|conntrack_buckets'; "
        "nft list ruleset; ip -br link"
    )
    before = world.inside("v", script)
    _, done = world.download(tmp_path / "run", [("small", SERVER_V4)], "all14,quiche")
    assert done.returncode == 0
    until(lambda: world.inside("v", script) == before, "the links to go")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--sets", "bl,none"), 2, "'none' is no option set"),
        (("--sets", "bl,bl"), 2, "the option set bl is named twice"),
        (("--sets", "warmup"), 2, "no option set is chosen besides warmup"),
        (("--allow-net", "192.0.2.0/24"), 2, "is not inside loopback"),
        (("--blocklist", "/nowhere"), 3, "cannot read /nowhere"),
    ],
)
def test_wrong_use(
    world: DownloadWorld, tmp_path: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    _, done = world.download(tmp_path / "run", [("small", SERVER_V4)], "bl", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_contact_nothing_is_sent(world: DownloadWorld, tmp_path: Path) -> None:
    targets = tmp_path / "t.csv"
    targets.write_text("url,ip\nhttps://example.com/,203.0.113.9\n")
    done = world.run("download", "--targets", targets)
    assert done.returncode == 2
    assert "a contact is needed: 203.0.113.9" in done.stderr


def test_a_budget_without_sending(world: DownloadWorld, tmp_path: Path) -> None:
    _, done = world.download(tmp_path / "run", [("small", SERVER_V4)], "bl,all14", "--dry-run")
    assert done.returncode == 0
    assert done.stdout.startswith("1 files, 3 downloads of each: at most 30 MiB and 0.0 hours")


def test_rejected_lines_are_named(world: DownloadWorld, tmp_path: Path) -> None:
    files = [("small", SERVER_V4), ("http://a.test/", SERVER_V4), ("small", "x"), ("one", SERVER_V4)]
    found, done = world.download(tmp_path / "run", files, "bl")
    assert done.returncode == 1
    assert [row["outcome"] for row in found] == ["done", "done"]
    lines = [line for line in done.stderr.splitlines() if line.startswith("line ")]
    assert [line.partition(":")[0] for line in lines] == ["line 3", "line 4", "line 5"]
    assert "appears twice" in lines[2]
