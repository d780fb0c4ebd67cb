"""The RTT estimates in clients' logs: medians, verdicts and text, from hand-made logs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import InputError
from testbed.measures import pto_logged, rtt_updates, server_estimate
from testbed.measures.rtt_updates import Log, Logged
from testbed.measures.server_estimate import Estimates
from testbed.trials import block
from tests.dissect.quic.test_qlog_read import FIRST, SECOND, event, sequence
from tests.testbed.experiments import find

ODCID = "8394c8f03e515708"
CONNECTION = {"odcid": ODCID, "rtt_samples": 5, "pto_series_us": "[30000, 31000]"}


def test_a_log_is_matched_with_its_connection(tmp_path: Path) -> None:
    """Two of three entries change the estimate; the first connection ID identifies the connection."""
    path = sequence(tmp_path / "client-0001.sqlog", FIRST, SECOND, event(30, latest_rtt=11))
    assert rtt_updates.log_of(path, {ODCID: CONNECTION}) == Log(2, 30_000, 5, 30_000)
    without: dict[str, Any] = {**CONNECTION, "rtt_samples": None, "pto_series_us": None}
    assert rtt_updates.log_of(path, {ODCID: without}).rfc_pto_us is None
    with pytest.raises(InputError, match="belongs to no connection"):
        rtt_updates.log_of(path, {"00": CONNECTION})
    with pytest.raises(InputError, match="has no RTT sample"):
        rtt_updates.log_of(sequence(tmp_path / "empty"), {ODCID: CONNECTION})


def logged(client: str, updates: float | None, samples: float | None, published: int | None) -> Logged:
    logs = 0 if updates is None else 2
    damaged = "x: the client wrote no log in repetition 1" if updates is None else None
    return Logged(
        client,
        "1",
        "quic-go",
        "wfc",
        100,
        2,
        2,
        logs,
        updates,
        samples,
        300,
        300.1,
        published,
        published,
        damaged,
    )


def test_verdicts_are_of_what_is_known() -> None:
    found = [
        logged("aioquic", 60, 60, 66),
        logged("quic-go", 300, 290, 213),
        logged("go-x-net", None, None, 1374),
        logged("ngtcp2", 12, 12, None),
    ]
    text = rtt_updates.summary(find("iack-rtt-updates"), found).text(terminal=False)
    assert "aioquic: met: as many updates as published, within 15 %: 60, published 66 (-9 %)." in text
    assert "aioquic: met: it updates its estimate as often as it has samples, or less often: 60" in text
    assert "quic-go: not met: it updates its estimate as often as it has samples" in text
    assert "quic-go: not met: as many updates as published, within 15 %: 300, published 213 (+41 %)." in text
    assert text.count("ngtcp2: met") == 1
    assert "go-x-net: x: the client wrote no log in repetition 1." in text
    assert "go-x-net: met" not in text and "go-x-net: not met" not in text


def test_cells_without_a_log_keep_their_seeds() -> None:
    """Figures in docs/testbed.md depend on these seeds: a new field of cells must not change them."""
    cell = find("ack-ratio").cells()[0]
    (first,) = block.blocks("ack-ratio", cell, 10)
    # The medians in docs/testbed.md come from rows with this seed.
    assert first.seed == 1119783510889142711
    logging = block.blocks("ack-ratio", cell.model_copy(update={"client_qlog": True}), 10)[0]
    assert logging.seed != first.seed


def test_a_client_without_logs_is_unavailable() -> None:
    cell = find("ack-ratio").cells()[0].model_copy(update={"client_qlog": True, "client": "quinn"})
    assert block.blocks("x", cell, 1)[0].unavailable() == "the client quinn writes no qlog"


def test_a_server_without_logs_is_unavailable() -> None:
    cell = find("ack-ratio").cells()[0].model_copy(update={"server_qlog": True})
    assert block.blocks("x", cell, 1)[0].unavailable() == "the server quinn writes no qlog"


def test_a_log_counts_if_its_connection_does(tmp_path: Path) -> None:
    """A log of another connection, or without a sample, is not counted; a damaged one is named."""
    folder = tmp_path / "cell" / "0001-0002"
    folder.mkdir(parents=True)
    sequence(folder / "server-a.sqlog", FIRST, SECOND)
    sequence(folder / "server-b.sqlog")
    sequence(folder / "client-0001.sqlog", FIRST)
    rows, damaged = server_estimate.first_estimates([folder], "server", {ODCID})
    assert ([row["qlog_file"] for row in rows], damaged) == (["server-a.sqlog"], [])
    assert rows[0]["number"] == 1
    (folder / "server-c.qlog").write_text("{}")
    rows, damaged = server_estimate.first_estimates([folder], "server", {"00"})
    assert rows == []
    assert damaged == [
        "cell/0001-0002/server-c.qlog: it has no traces: it is not a qlog file, or has another version"
    ]


def test_both_sides_have_a_line() -> None:
    line = Estimates(
        *("quic-go", "1", "aioquic", "2", "iack", 9, 20, 2, 2, 2, 1),
        *(9.3, 9.5, 27.9, 28.5, "cell/0001-0002/server-c.qlog: it has no traces"),
    )
    lost = dataclasses.replace(line, client="tquic", done=0)
    text = server_estimate.summary(find("iack-server-estimate"), [line, lost]).text(terminal=False)
    (found,) = (row.split() for row in text.splitlines() if row.startswith("quic-go  aioquic"))
    assert found == ["quic-go", "aioquic", "iack", "9", "9.3", "9.5", "27.9", "28.5", "2/2", "1/2"]
    assert "quic-go with aioquic: cell/0001-0002/server-c.qlog: it has no traces." in text
    assert "tquic with aioquic" in text
    (panel,) = server_estimate.panels([line])
    assert [series.points for series in panel.series] == [
        (("quic-go, aioquic, iack", 27.9),),
        (("quic-go, aioquic, iack", 28.5),),
    ]


def test_the_gain_of_the_first_timeout_is_computed_from_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Medians of logs; a pair without a log on one side has no gain, and no verdict."""
    experiment = find("iack-first-pto-logs")
    wfc = dataclasses.replace(
        logged("ngtcp2", 2, 2, None), rtt_ms=9, server="aioquic", pto_ms=39, rfc_pto_ms=39.3
    )
    iack = dataclasses.replace(wfc, answering="iack", pto_ms=27, rfc_pto_ms=27)
    found = pto_logged.of_pair(experiment, wfc, iack)
    assert found.rfc_gain_ms == pytest.approx(12.3)
    assert (found.pto_gain_ms, found.verdict) == (12, "met")
    late = pto_logged.of_pair(experiment, dataclasses.replace(wfc, pto_ms=47), iack)
    assert (late.pto_gain_ms, late.verdict) == (20, "not met")
    lost = pto_logged.of_pair(
        experiment, dataclasses.replace(wfc, pto_ms=None, logs=0, damaged="x: no log"), iack
    )
    assert (lost.pto_gain_ms, lost.verdict) == (None, None)
    lines = [found, dataclasses.replace(late, rtt_ms=20), lost]
    text = pto_logged.summary(experiment, lines).text(terminal=False)
    assert "ngtcp2 at 9 ms: met: 3 g within 1 ms, g of 3.9 to 5.5 ms: 12.0 ms." in text
    assert "ngtcp2 at 20 ms: not met" in text
    assert "ngtcp2 at 9 ms: x: no log." in text
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    hidden = pto_logged.summary(experiment, lines).text(terminal=False)
    assert "published" in text.partition("\n\n")[2] and "published" not in hidden.partition("\n\n")[2]
