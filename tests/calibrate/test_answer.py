"""`firstflight calibrate` with handmade pairs and results computed by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reports import calibration
from schemas import records
from store import open_store
from store.load import loader
from tests.store.conftest import place, tables, template
from tests.store.rows import probe, write

__all__ = ["place", "tables", "template"]

RUN, STAGES = "20261120T055900Z-aaaaaa", "20261121T055900Z-bbbbbb"
AT, SECOND = 1_795_154_400 * 10**9, 10**9
NUMBERS = {c.name: 0 for c in records.load("quic_handshake").columns if c.type.startswith("uint")}


def pair(
    number: int, first: str, second: str, us: tuple[int, int] = (100, 100), **more: Any
) -> dict[str, Any]:
    """Return a row for a pair: `first` is the first answer to the probe, `second` that to the handshake.

    `us` are the times of the two ACKs. After an instant ACK, the ServerHello follows 10 us later.
    """
    kind = records.load("calibration")
    sides = {"probe": (first, us[0]), "handshake": (second, us[1])}
    row: dict[str, Any] = {column.name: None for column in kind.file_columns} | {
        "run": RUN,
        "vantage": "hamburg",
        "repetition": 1,
        "domain": f"n{number}.example",
        "port": 443,
        "ip": "198.18.48.1",
        "asn": 13335,
        "cdn": "Cloudflare",
        "block": 1,
        "first": "probe",
        "tool_version": "0.1.0+test",
        "ruleset": "0",
        "probe_attempts": 1,
        "handshake_retransmissions": 0,
        "probe_sent_at": AT,
        "handshake_sent_at": AT + 2 * SECOND,
        **dict.fromkeys(
            ("probe_retried", "probe_hello_retry", "handshake_retry", "handshake_hello_retry"), False
        ),
    }
    for side, (answer, ack_us) in sides.items():
        if answer in ("iack", "coalesced"):
            delta = 10 if answer == "iack" else 0
            times = {"ack_us": ack_us, "sh_us": ack_us + delta, "ack_to_sh_us": delta}
            row |= {f"{side}_{name}": value for name, value in times.items()}
    answered = second in ("iack", "coalesced", "sh_first")
    row |= {"probe_outcome": first, "handshake_outcome": "done" if answered else second}
    return row | {"handshake_first_answer": second if answered else None} | more


def interleaved() -> list[dict[str, Any]]:
    """Return pairs of Cloudflare and of others.

    Instant ACKs of Cloudflare: 1 pair in both, 1 only in the probe, 7 only in the handshake, 12 in neither.
    The other pairs are mostly not comparable, each for another reason.
    """
    answers = [("iack", "iack"), ("iack", "coalesced"), *[("coalesced", "iack")] * 7]
    answers += [("coalesced", "coalesced")] * 12
    rows = [pair(n, *both, us=(1_000, 1_000 + n)) for n, both in enumerate(answers)]
    other: dict[str, Any] = {"cdn": "Others", "asn": 3320}
    rows += [
        pair(50, "timeout", "iack", **other),
        pair(51, "iack", "timeout", **other),
        pair(52, "refused", "refused", **other),
        pair(53, "blocked", "blocked", probe_sent_at=None, handshake_sent_at=None, **other),
        pair(54, "iack", "iack", handshake_sent_at=AT + 601 * SECOND, **other),
        pair(55, "iack", "iack", us=(1_000, 999_000), handshake_retransmissions=1, **other),
        pair(56, "iack", "iack", us=(1_000, 998_999), handshake_retransmissions=1, **other),
        pair(57, "iack", "iack", us=(1_000, 1_000), cdn=None, asn=None),
        pair(58, "iack", "iack", vantage="hong_kong", **other),
    ]
    return rows


def of_stages(run: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rows for four names: both stages contacted three, and only the probe stage the fourth."""
    common_columns = {"run": run, "vantage": "hamburg", "repetition": 1, "ip": "198.18.48.1", "port": 443}
    answers = ["iack", "coalesced", "iack"]
    probes = [
        probe(
            answer,
            **common_columns,
            domain=f"n{n}.example",
            sent_at=AT,
            ack_us=9,
            sh_us=9 + 4 * (answer == "iack"),
        )
        for n, answer in enumerate([*answers, "iack"])
    ]
    probes[2]["attempts"] = 2
    kind = records.load("quic_handshake")
    common = {column.name: None for column in kind.file_columns} | NUMBERS | common_columns
    common |= {"outcome": "done", "stage": "response", "retry": False, "hello_retry": False}
    common |= {"tool_version": "t", "ruleset": "0", "sent_at": AT + 3600 * SECOND}
    handshakes = [
        {
            **common,
            "domain": f"n{n}.example",
            "first_answer": "iack",
            "ack_us": 9,
            "sh_us": 13,
            "ack_to_sh_us": 4,
        }
        for n in range(len(answers))
    ]
    return probes, [row | {"alert": None, "close_code": None, "status": None} for row in handshakes]


@pytest.fixture
def loaded(tmp_path: Path, tables: Path) -> None:
    """A store with both runs."""
    assert tables.is_dir()
    paths = []
    for vantage in ("hamburg", "hong_kong"):
        vantage_rows = [row for row in interleaved() if row["vantage"] == vantage]
        paths.append(write(tmp_path / vantage / "calibration.parquet", vantage_rows, "calibration"))
    for run in (RUN, STAGES):
        probes, handshakes = of_stages(run)
        paths.append(write(tmp_path / run / "quic_probe.parquet", probes))
        paths.append(write(tmp_path / run / "quic_handshake.parquet", handshakes, "quic_handshake"))
    results = loader.load_files(paths)
    assert all(isinstance(result, loader.Loaded) for result in results), results


def answered(part: str, run: str, vantage: str = "hamburg", most: float = 600.0) -> list[dict[str, Any]]:
    with open_store() as store:
        return calibration.rows(store, part, run, vantage, most)


def values(row: dict[str, Any], names: str) -> list[Any]:
    return [row[name] for name in names.split()]


@pytest.mark.usefixtures("loaded")
def test_agreement_of_interleaved_pairs() -> None:
    all_cdns, cloudflare, others = answered("agreement", RUN)
    assert [row["cdn"] for row in (all_cdns, cloudflare, others)] == [None, "Cloudflare", "Others"]
    counts = "pairs compared both_instant probe_only handshake_only neither apart_p50_s"
    assert values(cloudflare, counts) == [21, 21, 1, 1, 7, 12, 2.0]
    assert cloudflare["agreement"] == pytest.approx(13 / 21)
    assert values(cloudflare, "mcnemar_p mcnemar_mid_p") == pytest.approx([18 / 256, 10 / 256])
    # Chance: (2 * 8 + 19 * 13) / 441 = 263 / 441; observed 273 / 441.
    assert cloudflare["kappa"] == pytest.approx(10 / 178)
    reasons = "pairs not_sent both_failed probe_failed handshake_failed repeated apart compared both_instant"
    assert values(others, reasons) == [7, 1, 1, 1, 1, 1, 1, 1, 1]
    assert values(all_cdns, "pairs compared") == [29, 23]  # including a pair without a CDN
    assert values(answered("agreement", RUN, most=601)[2], "apart compared") == [0, 2]
    assert values(answered("agreement", RUN, vantage="")[0], "pairs compared") == [30, 24]
    first, second = calibration.notes([all_cdns, cloudflare, others])
    assert "stage calibrate, 2.0 s apart in the median" in first
    assert second.startswith("compared: 23 of 29; not compared: 1 not_sent, 1 both_failed")


@pytest.mark.usefixtures("loaded")
def test_paired_delays_and_their_interval() -> None:
    found = {(row["cdn"], row["quantity"]): row for row in answered("delays", RUN)}
    names = "pairs probe_p50_us handshake_p50_us difference_p50_us difference_low_us difference_high_us"
    # 21 differences, 0 to 20: ranks 6 and 16 (the binomial of 21 and 1/2: 0.0133 up to 5, 0.0392 up to 6).
    row = found["Cloudflare", "first_answer_us"]
    assert values(row, names) == [21, 1_000, 1_010, 10, 5, 15]
    assert row["confidence"] == pytest.approx(0.9734, abs=5e-5)
    # 12 + 1 pairs have equal delays, 7 a delay only in the probe (+10), 1 only in the handshake (-10).
    assert values(found["Cloudflare", "ack_to_sh_us"], names) == [21, 0, 0, 0, 0, 10]
    few = found["Others", "sh_us"]
    assert (few["pairs"], few["difference_low_us"], few["confidence"]) == (1, None, None)


@pytest.mark.usefixtures("loaded")
def test_categories() -> None:
    found = [row for row in answered("categories", RUN) if row["cdn"] == "Cloudflare"]
    names = "probe handshake pairs compared"
    assert [values(row, names) for row in found] == [
        ["coalesced", "coalesced", 12, 12],
        ["coalesced", "iack", 7, 7],
        ["iack", "coalesced", 1, 1],
        ["iack", "iack", 1, 1],
    ]


@pytest.mark.usefixtures("loaded")
def test_a_run_without_interleaved_pairs_compares_its_stages() -> None:
    found = answered("agreement", STAGES)
    names = "source pairs repeated compared both_instant probe_only handshake_only neither apart_p50_s"
    assert values(found[0], names) == ["stages", 3, 1, 2, 1, 0, 1, 0, 3600]
    assert "one stage after the other" in calibration.notes(found)[0]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(("part", "count"), [(None, 3), ("delays", 9), ("categories", 17)])
def test_the_command_prints_any_format(part: str | None, count: int) -> None:
    more = [] if part is None else ["--part", part]
    argv = [sys.executable, "-P", "-m", "cli", "calibrate", "--run", RUN, "--vantage", "hamburg", *more]
    done = subprocess.run([*argv, "--format", "JSONEachRow"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == count
    assert list(rows[0]) == list(calibration.PARTS[part or "agreement"])
    people = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert ("compared: 23 of 29" in people) == (part is None)
    assert ("difference_p50_us" in people) == (part in (None, "delays"))


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("part", list(calibration.PARTS))
def test_a_run_without_pairs_is_one_sentence(part: str) -> None:
    argv = [sys.executable, "-P", "-m", "cli", "calibrate", "--run", "none", "--part", part]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "firstflight: run none has no pair in the store: its settings need [calibrate]"
    )
