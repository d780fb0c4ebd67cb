"""Trials with a scenario's settings of path and certificate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from testbed.experiment.cell import Cell
from testbed.trials import compare_runs, series, trial_row
from testbed.trials.captures.lateness import datagrams
from tests.testbed.guests.test_trials import run

HELD = 'title = "x"\n[held]\nclient = "quic-go"\nanswering = "wfc"\nrtt_ms = 20\n'


def test_all_of_it_is_the_same_bytes_twice() -> None:
    cell = Cell(
        client="quic-go",
        server="aioquic",
        answering="iack",
        rtt_ms=20,
        delay_to_server_ms=5,
        certificate_key="rsa_2048",
        certificate_bytes=2000,
        netem_loss_to_client_percent=2,
        netem_loss_to_server_percent=2,
        reorder_percent=5,
        reorder_ms=3,
        body_bytes=50_000,
    )
    (found,) = compare_runs.run_twice("x", [cell], 1, 2)
    assert found.same and found.outcomes == {"done"}, found


def test_only_the_named_datagrams_are_delayed(tmp_path: Path) -> None:
    file = tmp_path / "late.toml"
    file.write_text(
        HELD + 'server = "quinn"\n'
        'certificate_key = "rsa_2048"\ncertificate_bytes = 2000\n'
        "body_bytes = 100000\ndelay_to_server_ms = 4\n[[cell]]\nreorder_to_client = [30, 50]\n"
        "reorder_to_server = [9]\nreorder_ms = 7\n[[cell]]\nnetem_loss_to_client_percent = 4\n"
    )
    run(tmp_path, f"--scenario={file}", "--seeds", "1")
    late, lossy = series.rows(tmp_path, "late")
    if late["reorder_ms"] is None:
        late, lossy = lossy, late
    assert (late["outcome"], late["reordered"], late["dropped"]) == ("done", 3, 0)
    assert late["spurious_retransmissions_server"] >= 1 and late["link_late_p99_us"] is None
    folder = tmp_path / "late" / late["cell"] / "0001-0001"
    trial = trial_row.by_repetition(folder / "trials.jsonl")[1]
    sent = [datagram for datagram in datagrams(folder / "sender.pcap") if trial["begun_ns"] <= datagram[0]]
    came = dict(reversed([(payload, time_ns) for time_ns, payload in datagrams(folder / "path.pcap")]))
    # Of the RTT of 20 ms 16 are left towards the client.
    times_ms = [round((came[payload] - time_ns) / 1e6) for time_ns, payload in sent]
    assert Counter(times_ms) == {16: len(sent) - 2, 23: 2}
    assert [number for number, time_ms in enumerate(times_ms, 1) if time_ms == 23] == [30, 50]
    assert (lossy["outcome"], lossy["reordered"]) == ("done", 0)
    assert 0 < lossy["dropped"] < lossy["datagrams_server"] / 5


def test_servers_sign_with_rsa(tmp_path: Path) -> None:
    """aioquic and quinn do so above."""
    file = tmp_path / "rsa.toml"
    file.write_text(
        HELD + "certificate_bytes = 2000\n"
        '[vary]\nserver = ["quic-go", "s2n-quic", "quiche"]\ncertificate_key = ["rsa_2048"]\n'
    )
    run(tmp_path, f"--scenario={file}", "--seeds", "1")
    rows = series.rows(tmp_path, "rsa")
    assert [(row["certificate_key"], row["outcome"]) for row in rows] == [("rsa_2048", "done")] * 3
