"""Experiment files: cells, one-sentence errors, blocks, losses, conditions and stacks."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pycurl
import pytest

from firstflight.errors import UsageError
from testbed import experiment_files, stacks
from testbed.experiment import conditions, experiment
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.stacks.version import Version
from testbed.trials import block, compare_runs, server_config, trial_row
from testbed.trials.captures import second_flight
from testbed.trials.network import losses, path

HELD = 'title = "A title"\n[held]\nclient = "quiche"\nserver = "aioquic"\nanswering = "iack"\n'


def made(tmp_path: Path, text: str) -> Experiment:
    file = tmp_path / "own.toml"
    file.write_text(text, encoding="utf-8")
    return experiment_files.read(file)


def test_every_combination_is_a_cell_and_each_further_one(tmp_path: Path) -> None:
    made_experiment = made(
        tmp_path,
        HELD
        + '[vary]\nrtt_ms = [1, 9]\nanswering = ["wfc", "iack"]\n'
        + "[when.answering.iack]\ndrop_to_client = [2, 3]\n[[cell]]\nrtt_ms = 50\ndrop_to_client = [7]\n",
    )
    assert [(cell.name, cell.drop_to_client) for cell in made_experiment.cells()] == [
        ("quiche-aioquic-wfc-1ms", ()),
        ("quiche-aioquic-iack-1ms", (2, 3)),
        ("quiche-aioquic-wfc-9ms", ()),
        ("quiche-aioquic-iack-9ms", (2, 3)),
        ("quiche-aioquic-iack-50ms", (7,)),
    ]
    assert [cell.name for cell in experiment.chosen(made_experiment, ("wfc-1", "50"))] == [
        "quiche-aioquic-wfc-1ms",
        "quiche-aioquic-iack-50ms",
    ]
    with pytest.raises(UsageError, match="no cell's name contains 'nginx'"):
        experiment.chosen(made_experiment, ("nginx",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "is not TOML"),
        ('title = "x"\ntitel = "x"', "titel: no such setting"),
        (HELD + "rtt_ms = -1\n[[cell]]\n", "rtt_ms: Input should be greater than 0"),
        (HELD + "rtt = 1\n[[cell]]\n", "rtt: no such setting"),
        (HELD + "ack_delay_ms = 25\n[[cell]]\n", "need `ack_ratio`"),
        (HELD + "gso_segments = 4\n[[cell]]\n", "`gso_segments` needs `gso`: give both"),
        (HELD + "gso = true\ngso_segments = 1\n[[cell]]\n", "gso_segments: Input should be greater than or"),
        (HELD + "ack_ratio_later = 2\nack_ratio_later_after = 9\n[[cell]]\n", "need `ack_ratio`"),
        (HELD + "ack_ratio = 2\nack_ratio_later = 10\n[[cell]]\n", "need each other: give both or none"),
        (HELD + "ack_ratio = 2\nack_ratio_later_after = 9\n[[cell]]\n", "need each other: give both or none"),
        (
            HELD + "ack_ratio = 2\nack_ratio_later = 2\nack_ratio_later_after = 9\n[[cell]]\n",
            "`ack_ratio_later` is the same as `ack_ratio`: change one",
        ),
        (
            HELD + "ack_ratio = 2\nack_ratio_later = 10\nack_ratio_later_after = 0\n[[cell]]\n",
            "ack_ratio_later_after: Input should be greater than or equal to 1",
        ),
        (HELD + 'ack_ratio = 2\nack_reordering = "late"\n[[cell]]\n', "ack_reordering: Input should be"),
        (HELD + '[[cell]]\nclient = "nginx"\n', "there is no stack 'nginx'"),
        (HELD + "[vary]\nqueue_packets = [1, 2]\n", "two cells have the name quiche-aioquic-iack-9ms"),
        (HELD + "[[cell]]\ndrop_to_client = [0]\n", "drop_to_client.0: Input should be greater than"),
        (HELD + "[[cell]]\ndrop_to_server = [-3]\n", "drop_to_server.0: Input should be greater than"),
        (HELD + "[vary]\nrtt_ms = []\n", "`vary` has no values of rtt_ms: add values, or remove it"),
        (
            HELD + "[[cell]]\n[when.answring.iack]\nrtt_ms = 1\n",
            "`when` has the field answring, which no cell",
        ),
        (
            HELD + "[[cell]]\n[when.answering.wfc]\nrtt_ms = 1\n",
            "`when.answering.wfc` applies to no cell: none",
        ),
        (
            HELD + "[vary]\nrtt_ms = [1, 9]\n[when.rtt_ms.20]\nrate_mbit = 1\n",
            "`when.rtt_ms.20` applies to no",
        ),
        (
            HELD + "[vary]\nrtt_ms = [1, 9]\n[when.answering.iack]\nrtt_ms = 1\n",
            "`when.answering.iack` sets rtt_ms, which is also in `vary`",
        ),
        (
            HELD + f"[vary]\nrtt_ms = {list(range(1, 102))}\nrate_mbit = {list(range(1, 101))}\n",
            "10100 cells",
        ),
    ],
)
def test_a_fault_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        made(tmp_path, text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_fields_of_a_value_replace_held_ones(tmp_path: Path) -> None:
    """Values are compared as numbers, and a cell's own values have precedence."""
    made_experiment = made(
        tmp_path,
        HELD
        + "rate_mbit = 10\n[vary]\nrtt_ms = [9.0, 20]\n[when.rtt_ms.9]\nrate_mbit = 40\n"
        + "[[cell]]\nrtt_ms = 9\nrate_mbit = 5\nqueue_packets = 9\nloss_percent = 1\n",
    )
    assert [cell.rate_mbit for cell in made_experiment.cells()] == [40, 10, 5]


def test_any_number_of_datagrams_can_be_lost() -> None:
    """nft reads the numbers from standard input, because a command's argument has at most 128 KiB."""
    cell = Cell(client="quiche", server="quiche", answering="wfc", loss_percent=5, body_bytes=50_000_000)
    assert len(path.drops(cell, 1) or "") > 128 * 1024
    assert all(len(argument) < 100 for argument in path.NFT)


def test_the_experiments_here_have_cells_for_each_stack_of_the_papers() -> None:
    with_browsers = set()
    for name, each_experiment in experiment_files.load().items():
        cells = each_experiment.cells()
        assert {cell.client for cell in cells} >= {
            given.client for given in getattr(each_experiment, "published", ())
        }
        pairs = {(cell.client, cell.server, cell.rtt_ms) for cell in cells}
        for given in getattr(each_experiment, "found", ()):
            assert pairs >= set(itertools.product(given.clients, given.servers, given.rtt_ms)), given
        available = [cell for cell in cells if block.blocks("", cell, 1)[0].unavailable() is None]
        browsers = {cell.client for cell in available if stacks.find(cell.client).polls}
        if browsers:
            assert browsers == ({"chromium"} if name == "ack-survey" else {"chromium", "firefox"})
            with_browsers.add(name)
        # Few clients support HTTP/0.9.
        has_few_clients = cells[0].alpn == "hq-interop" or name in (
            "iack-browsers",
            "iack-half-hello",
            "iack-server-estimate",
            "certificate-limit",
            "ack-video",
        )
        if "client" in each_experiment.vary and not has_few_clients:
            clients = {
                "aioquic",
                "go-x-net",
                "kwik",
                "msquic",
                "ngtcp2",
                "ngtcp2-gnutls",
                "picoquic",
                "quic-go",
                "quiche",
                "quinn",
                "s2n-quic",
                "tquic",
            }
            if each_experiment.measure in ("rtt_updates", "pto_logged"):
                clients = {name for name in clients if stacks.find(name).qlog}
                assert clients == {
                    "aioquic",
                    "go-x-net",
                    "ngtcp2",
                    "ngtcp2-gnutls",
                    "quic-go",
                    "quiche",
                    "tquic",
                }
            # go-x-net speaks only HTTP/0.9, which few servers speak.
            assert {cell.client for cell in available} - browsers | {"go-x-net"} == clients
        drawn = compare_runs.sample(cells)
        assert drawn == compare_runs.sample(cells)
        # Each stack on either side, no pair twice.
        for side in ("client", "server"):
            available_stacks = {getattr(cell, side) for cell in available if cell.client not in browsers}
            assert {getattr(cell, side) for cell in drawn} == available_stacks
        assert len({(cell.client, cell.server) for cell in drawn}) == len(drawn)
    names = ("ack-bytes", "ack-ratio", "ack-survey", "ack-video", "iack-browsers", "iack-default-pto")
    assert with_browsers == set(names)


def test_a_client_and_a_server_need_a_protocol_in_common() -> None:
    """x/net has no public HTTP/3, and the server quiche speaks only HTTP/3."""
    reasons = {
        server: block.blocks("", Cell(client="go-x-net", server=server, answering="iack"), 1)[0].unavailable()
        for server in ("aioquic", "quiche")
    }
    assert reasons["aioquic"] is None
    assert (
        reasons["quiche"] == "the server quiche does not support hq-interop, the only protocol of the client"
    )


def test_the_version_of_a_stack_inside_a_library_is_its_own() -> None:
    version = stacks.find("ngtcp2").version.text()
    assert f" ngtcp2/{version} " in pycurl.version
    for name in ("quinn", "s2n-quic", "go-x-net"):
        assert stacks.find(name).version.text()[0].isdigit()
    assert Version(cargo="no-such-crate").text() == "unknown"


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ("firstflight-edge 0.1.0 (quiche 0.29.1)", "0.29.1"),
        # An older build that does not report its stack's version.
        ("firstflight-edge 0.1.0", None),
        (None, stacks.find("quiche").version.text()),
    ],
)
def test_a_servers_version_is_that_of_what_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str | None, version: str | None
) -> None:
    """The version is read from the built program, not from the lock file."""

    def find(name: str) -> Path:
        if says is None:
            raise UsageError("not there")
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
        program.chmod(0o755)
        return program

    monkeypatch.setattr("testbed.stacks.program.binaries.find", find)
    assert stacks.find("quiche").server_version == version
    assert stacks.find("aioquic").server_version == stacks.find("aioquic").version.known()


def test_blocks_cover_each_repetition_once_with_separate_seeds() -> None:
    cell = Cell(client="quiche", server="quiche", answering="iack")
    found = block.blocks("own", cell, 120)
    assert [(each_block.first, each_block.last) for each_block in found] == [(1, 50), (51, 100), (101, 120)]
    assert sum(each_block.trials for each_block in found) == 120
    seeds = {each_block.seed for each_block in (*found, *block.blocks("other", cell, 120))}
    assert len(seeds) == 6


def test_datagrams_are_dropped_by_number_where_they_leave_the_link() -> None:
    cell = Cell(
        client="quiche", server="quiche", answering="iack", drop_to_client=(3, 1), drop_to_server=(2,)
    )
    script = path.drops(cell, 1) or ""
    assert "oifname to_client numgen inc mod 1000000000 { 0, 2 } counter drop\n" in script
    assert "oifname to_server numgen inc mod 1000000000 { 1 } counter drop\n" in script
    assert path.drops(Cell(client="quiche", server="quiche", answering="iack"), 1) is None


def test_random_loss_is_the_same_in_all_cells_of_a_repetition() -> None:
    """Cells can therefore be compared in pairs. The mean loss rate equals the declared one."""
    plain = Cell(client="quiche", server="quiche", answering="iack", loss_percent=1, body_bytes=1_000_000)
    other = plain.model_copy(update={"client": "quinn", "rtt_ms": 30.0, "ack_ratio": 10})
    assert path.drops(plain, 3) == path.drops(other, 3) != path.drops(plain, 4)
    assert losses.lost_datagrams(plain, "to_client", 3) != losses.lost_datagrams(plain, "to_server", 3)
    counts = [len(losses.lost_datagrams(plain, "to_client", repetition)) for repetition in range(1, 101)]
    assert sum(counts) / 100 == pytest.approx(5000 * 0.01, rel=0.05)
    # A trial without a lost datagram must not keep the rules of the one before it.
    rare = plain.model_copy(update={"loss_percent": 1e-6, "body_bytes": 0})
    script = path.drops(rare, 1) or ""
    assert "delete table" in script and "numgen" not in script
    explicit = plain.model_copy(update={"drop_to_client": (2,)})
    numbers = [2, *losses.lost_datagrams(plain, "to_client", 1)]
    shown = ", ".join(str(number - 1) for number in sorted(set(numbers)))
    assert f"oifname to_client numgen inc mod 1000000000 {{ {shown} }}" in (path.drops(explicit, 1) or "")


def test_the_return_path_has_a_separate_rate_and_queue() -> None:
    given = {"client": "quiche", "server": "quiche", "answering": "iack", "rtt_ms": 100, "rate_mbit": 10}
    cell = Cell.model_validate({**given, "rate_to_server_mbit": 0.05, "queue_to_server_packets": 7})
    lines = [" ".join(command) for command in path.commands(cell)]
    assert any("tc -n client qdisc add dev path0 root handle 1: tbf rate 50000bit" in line for line in lines)
    assert any(
        "tc -n server qdisc add dev path0 root handle 1: tbf rate 10000000bit" in line for line in lines
    )
    assert "tc -n client qdisc add dev path0 parent 1:1 pfifo limit 7" in lines
    assert "tc -n server qdisc add dev path0 parent 1:1 pfifo limit 25" in lines
    # The slow queue of 7 full frames at 50 kbit/s, and half the round-trip time.
    assert path.longest_wait_s(cell) == pytest.approx(7 * 1514 * 8 / 50_000 + 0.05)
    # Without its own rate, this direction has the common rate.
    assert Cell.model_validate(given).up_mbit == 10


def test_sockets_hold_a_window_where_there_is_a_body() -> None:
    cell = Cell(client="quiche", server="quiche", answering="wfc")
    wanted = ["sysctl", "-qw", "net.core.wmem_default=52428800", "net.core.rmem_default=52428800"]
    assert wanted not in path.commands(cell)
    assert path.commands(cell.model_copy(update={"body_bytes": 1}))[-1] == wanted


def test_each_direction_has_half_the_round_trip_time() -> None:
    cell = Cell(client="quiche", server="quiche", answering="iack", rtt_ms=9, rate_mbit=2)
    lines = [" ".join(command) for command in path.commands(cell)]
    for end in ("client", "server"):
        assert f"tc -n link qdisc add dev to_{end} root netem delay 4500us limit 1000000" in lines
        assert any(
            f"tc -n {end} qdisc add dev path0 root handle 1: tbf rate 2000000bit" in line for line in lines
        )


@pytest.mark.parametrize(
    ("more", "policy", "asked"),
    [
        ({}, None, {}),
        ({"congestion_control": "bbr"}, None, {"congestion_control": "bbr"}),
        ({"ack_ratio": 2}, "ratio 2", {"ack_eliciting_threshold": 1, "ack_reordering_threshold": 1}),
        (
            {"ack_ratio": 10, "ack_delay_ms": 12.5, "ack_reordering": "ignored"},
            "ratio 10, delay 12.5 ms, reordering ignored",
            {"ack_eliciting_threshold": 9, "ack_reordering_threshold": 0, "ack_delay_us": 12_500},
        ),
        (
            {"ack_ratio": 2, "ack_ratio_later": 10, "ack_ratio_later_after": 100, "ack_delay_ms": 7.5},
            "ratio 2, 10 after 100 packets, delay 7.5 ms",
            {
                "ack_eliciting_threshold": 1,
                "ack_reordering_threshold": 1,
                "ack_eliciting_threshold_later": 9,
                "ack_later_after": 100,
                "ack_delay_us": 7500,
            },
        ),
    ],
)
def test_a_policy_is_what_the_server_requests(
    more: dict[str, Any], policy: str | None, asked: dict[str, Any]
) -> None:
    cell = Cell.model_validate({"client": "quinn", "server": "quinn", "answering": "wfc", **more})
    assert (cell.ack_policy, server_config.transport(cell, launch_times=False)) == (policy, asked)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"server": "quinn", "gso": True}, "the server quinn cannot send several datagrams as one"),
        (
            {"server": "quinn", "qdisc": "etf"},
            "etf drops the datagrams of the server quinn, because it sets no launch times",
        ),
        ({"server": "quiche", "qdisc": "etf"}, None),
        (
            {"server": "s2n-quic", "gso": True, "gso_paced": True, "qdisc": "fq"},
            "the server s2n-quic sets no launch times for datagrams that it sends as one",
        ),
        ({"server": "quiche", "gso": True, "gso_paced": True, "qdisc": "etf"}, None),
        (
            {"server": "quic-go", "gso": True, "gso_segments": 4},
            "the server quic-go does not support a number of datagrams in a buffer",
        ),
        ({"server": "quiche-sf", "gso": True, "gso_segments": 4}, None),
        (
            {"client": "quiche-sf", "server": "quinn"},
            "quiche-sf has no client in testbed/stacks",
        ),
        (
            {"server": "quic-go", "congestion_control": "bbr"},
            "the server quic-go does not support the congestion control bbr",
        ),
        ({"server": "s2n-quic", "ack_ratio": 2}, "the server s2n-quic sends no ACK_FREQUENCY"),
        (
            {"server": "quinn", "ack_ratio": 2, "ack_reordering": "next_three"},
            "the server quinn cannot request the ACK reordering next_three",
        ),
        ({"server": "quinn", "ack_ratio": 2, "body_bytes": 1, "congestion_control": "reno"}, None),
    ],
)
def test_unsupported_settings_of_a_server_are_unavailable(more: dict[str, Any], reason: str | None) -> None:
    cell = Cell.model_validate({"client": "quinn", "answering": "wfc", **more})
    assert block.blocks("", cell, 1)[0].unavailable() == reason


@pytest.mark.parametrize(
    ("qdisc", "server", "link", "clock"),
    [
        ("none", None, True, None),
        ("fq", "root fq flow_limit 10000", True, "monotonic"),
        ("fq_codel", "root fq_codel", True, None),
        ("etf", "root etf clockid CLOCK_TAI delta 200000", True, "tai"),
        ("pfifo", "parent 1:1 pfifo limit 143", False, None),
    ],
)
def test_a_qdisc_of_the_server_is_before_the_rate_limit(
    qdisc: str, server: str | None, link: bool, clock: str | None
) -> None:
    given = {"client": "quiche", "server": "quiche", "answering": "wfc", "rtt_ms": 40, "rate_mbit": 40}
    cell = Cell.model_validate({**given, "queue_packets": 143, "qdisc": qdisc})
    lines = [" ".join(command) for command in path.commands(cell)]
    at_server = [line for line in lines if line.startswith("tc -n server qdisc")]
    assert len(at_server) == {"none": 0, "pfifo": 2}.get(qdisc, 1)
    assert server is None or at_server[-1] == f"tc -n server qdisc add dev path0 {server}"
    shaped = [line for line in lines if line.startswith("tc -n link qdisc add dev to_client")]
    assert ("rate 40000000bit" in shaped[0]) == link
    last = "parent 1:1 netem delay 20000us limit 143" if link else "root netem delay 20000us limit 1000000"
    assert shaped[-1] == f"tc -n link qdisc add dev to_client {last}"
    assert "tc -n link qdisc add dev to_server root netem delay 20000us limit 1000000" in lines
    assert path.bottleneck(cell) == (("link", "to_client") if link else ("server", "path0"))
    asked = server_config.transport(cell, launch_times=True)
    assert asked == ({} if clock is None else {"launch_clock": clock})
    assert server_config.transport(cell, launch_times=False) == {}


@pytest.mark.parametrize(
    ("given", "asked", "name"),
    [
        ({"qdisc": "fq"}, {"launch_clock": "monotonic"}, "fq"),
        ({"qdisc": "fq", "gso": True}, {"gso": True, "launch_clock": "monotonic"}, "fq-gso"),
        (
            {"qdisc": "etf", "gso": True, "gso_paced": True},
            {"gso": True, "gso_paced": True, "launch_clock": "tai"},
            "etf-paced-gso",
        ),
        (
            {"qdisc": "fq", "gso": True, "gso_segments": 4},
            {"gso": True, "gso_segments": 4, "launch_clock": "monotonic"},
            "fq-4gso",
        ),
        (
            {"qdisc": "fq", "gso": True, "gso_segments": 16, "gso_paced": True},
            {"gso": True, "gso_segments": 16, "gso_paced": True, "launch_clock": "monotonic"},
            "fq-paced-16gso",
        ),
        ({"qdisc": "fq", "gso_paced": True}, None, ""),
        ({"gso": True, "gso_paced": True}, None, ""),
        ({"qdisc": "fq_codel", "gso": True, "gso_paced": True}, None, ""),
    ],
)
def test_paced_buffers_need_buffers_and_launch_times(
    given: dict[str, Any], asked: dict[str, Any] | None, name: str
) -> None:
    whole = {"client": "quiche", "server": "quiche", "answering": "wfc", **given}
    if asked is None:
        with pytest.raises(ValueError, match="`gso_paced` needs `gso` and the qdisc fq or etf: give both"):
            Cell.model_validate(whole)
        return
    cell = Cell.model_validate(whole)
    assert server_config.transport(cell, launch_times=True) == asked
    assert cell.name == f"quiche-quiche-wfc-9ms-at-{name}"
    row = trial_row.without_trial("x", cell, 1, "guest_failed", None)
    columns = (row["gso"], row["gso_segments"], row["gso_paced"])
    assert columns == (cell.gso, cell.gso_segments, cell.gso_paced)


def test_a_queue_may_be_limited_in_bytes() -> None:
    given = {"client": "quiche", "server": "quiche", "answering": "wfc", "queue_bytes": 200_000}
    cell = Cell.model_validate(given)
    lines = [" ".join(command) for command in path.commands(cell)]
    for end in ("client", "server"):
        assert f"tc -n {end} qdisc add dev path0 parent 1:1 bfifo limit 200000" in lines
    row = trial_row.without_trial("x", cell, 1, "guest_failed", None)
    assert (row["queue_packets"], row["queue_to_server_packets"], row["queue_bytes"]) == (None, None, 200_000)
    assert path.longest_wait_s(cell) == pytest.approx(200_000 * 8 / 10e6 + 0.0045)
    with pytest.raises(ValueError, match="`queue_bytes` does not work with the qdisc fq"):
        Cell.model_validate({**given, "qdisc": "fq"})


def packet(frame: int, kind: str, frames: str = "", *, from_client: bool = True) -> dict[str, Any]:
    return {"frame_number": frame, "type": kind, "frames": frames, "from_client": from_client}


@pytest.mark.parametrize(
    ("packets", "expected"),
    [
        ([packet(1, "initial"), packet(2, "initial", from_client=False)], ()),
        # A coalesced datagram counts once, the server's datagrams do not count, and the flight stops at
        # the STREAM frame.
        (
            [
                packet(1, "initial", "crypto 0+300"),
                packet(2, "initial", "crypto 0+90", from_client=False),
                packet(3, "initial", "ack 0 delay 0"),
                packet(3, "handshake", "crypto 0+52"),
                packet(4, "1rtt", "stream 0 0+20 fin"),
                packet(5, "1rtt", "ack 0 delay 0"),
            ],
            (2, 3),
        ),
        ([packet(1, "initial"), packet(2, "handshake"), packet(3, "1rtt", "streams_blocked 1")], (2, 3)),
    ],
)
def test_the_second_flight_is_known_by_content(
    packets: list[dict[str, Any]], expected: tuple[int, ...]
) -> None:
    assert second_flight.indices(packets) == expected


@pytest.mark.parametrize(
    ("flights", "expected"), [((2, 3), (2,)), ((3, 2, 3), (3,)), ((3, 0, 0, 3, 0), ()), ((), ())]
)
def test_the_usual_second_flight_is_that_of_most_connections(
    flights: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """`flights` has the datagram number of each connection's second flight; 0 is a connection without one."""
    packets = [
        {**packet(number, "handshake" if number == flight else "initial", "stream 0"), **name}
        for port, flight in enumerate(flights)
        for name in [{"client_ip": "10.91.1.2", "client_port": port, "odcid": "00"}]
        for number in range(1, 4)
    ]
    assert second_flight.most_frequent(packets) == expected


def test_a_name_has_further_fields_where_the_cell_says_so() -> None:
    """A cell that names no further fields keeps its name and seed."""
    given = {"client": "quiche", "server": "quiche", "answering": "iack", "certificate_delay_ms": 25.5}
    plain = Cell.model_validate({**given, "drop_to_client": (2, 3)})
    assert plain.name == "quiche-quiche-iack-9ms"
    fields = ("certificate_bytes", "certificate_delay_ms", "drop_to_client", "drop_to_server")
    named = plain.model_copy(update={"named": fields})
    assert named.name == "quiche-quiche-iack-9ms-1200der-25.5waiting-down-2-3-lost"
    assert "named" not in {condition.name for condition in conditions.conditions([named])}
    assert block.blocks("x", plain, 1)[0].seed != block.blocks("x", named, 1)[0].seed


@pytest.mark.parametrize(
    "text",
    [
        'server = "quiche"\nunavailable = "x"\n',
        "",
        "client = {}\n",
        'client = {module = "a", program = "firstflight-b"}',
    ],
)
def test_a_stack_is_available_or_has_a_reason(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"own\.toml"):
        stacks.load(tmp_path)
