"""Result files of benches (`--result FILE`): content, and the columns that docs/results/tables.toml names."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from bench import mutant_counts, mutants, results
from bench.campaigns import campaign
from bench.campaigns.cost_table import StageRow
from bench.dissecting import dissector
from bench.engines import crawl, downloads, handshake_engine, prober, resolve, routing_table, tcp_options
from bench.storing import dashboard, database, query_lines
from bench.testbeds import ack_cost, lab, real_time, stack_delays, testbed
from deploy.docs import result_table
from deploy.docs import results as pages
from testbed.experiment.cell import Cell
from testbed.trials.block import TrialBlock
from tests.bench.test_ack_cost import ROUNDS
from tests.bench.test_stack_delays import BLOCKS

VERSIONS = {"software": {"chdb": ["4.4.0"]}}
COUNTS = {
    "firstflight-dissect": {"caught": 90, "missed": 7, "timeout": 3, "unviable": 10},
    "firstflight-prober": {"caught": 50},
}


def begun(path: Path, name: str = "own", *arguments: str) -> results.ResultFile:
    return results.begin(argparse.ArgumentParser(prog="bench campaign"), path, name, arguments)


def content(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_a_file_has_the_command_the_date_the_machine_and_the_versions(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    file = begun(path, "own", "--names", "100", "--folder", "a b")
    file.write([{"client": "a", "gain_ms": 1}, {"client": "b", "gain_ms": None}], VERSIONS)
    found = content(path)
    assert found["commands"] == ["python -m bench campaign --names 100 --folder 'a b'"]
    assert found["result"] == "own" and found["versions"] == VERSIONS
    assert found["firstflight"][0].startswith("0.") and found["kernel"][0].startswith("linux-")
    assert (
        "processors (" in found["machine"]
        and f"load {file.load_at_start:.1f} at the start" in found["machine"]
    )
    (tmp_path / "tables.toml").write_text('["page/own"]\nof = "own"\nrows = {gain = "{gain_ms}"}\n')
    page = pages.with_tables("<!-- results: page/own -->\n<!-- end -->", "page.md", tmp_path)
    assert "\n| 1 |\n| - |\n" in page
    assert f"Data: [own](results/own.json), measured on {found['measured_on']}:\n{found['machine']}." in page
    begun(path).write([{"client": "c"}], VERSIONS)
    assert content(path)["lines"] == [{"client": "c"}]
    assert content(path)["commands"] == ["python -m bench campaign"]


@pytest.mark.parametrize("earlier", ['{"result": "other"}', "[]", "{", "{}"])
def test_another_file_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], earlier: str
) -> None:
    path = tmp_path / "own.json"
    path.write_text(earlier)
    with pytest.raises(SystemExit, match="2"):
        begun(path)
    assert (
        f"{path}: the file exists and does not have the result own; name another" in capsys.readouterr().err
    )
    assert path.read_text() == earlier
    with pytest.raises(SystemExit, match="2"):
        begun(tmp_path / "none" / "own.json")
    assert f"the folder {tmp_path / 'none'} does not exist; create it" in capsys.readouterr().err


def test_without_the_option_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = results.begin(argparse.ArgumentParser(prog="bench campaign"), None, "own", [])
    file.write([{}], VERSIONS)
    assert list(tmp_path.iterdir()) == []


def test_the_option_is_for_one_measurement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--result", "x.json"], ["dashboard", "database", "--result=x.json"]):
        monkeypatch.setattr("sys.argv", ["bench", *words])
        assert bench.main() == 2
        assert "--result is the file of one measurement: name one" in capsys.readouterr().err


def query(**more: Any) -> dict[str, Any]:
    """Return a query's times, as bench/storing/queries.py prints them."""
    return {"rows": 1, "cold_s": 0.5, "wall_s": 0.25, "cpu_s": 0.2, "refused": None, **more}


QUERIES = {
    "amplification": query(),
    "name_measures": query(rows=0, cold_s=None, wall_s=0, cpu_s=0, refused="too much memory"),
    "watch_names": query(rows=0, cpu_s=0.01),
    "watch_hourly": query(rows=0, cpu_s=0.04),
    "view table1": query(cpu_s=0.1),
    "view iack_by_cdn": query(cpu_s=0.3),
}


def queries() -> list[results.Line]:
    return query_lines.lines(QUERIES, {**QUERIES, "amplification": query(cpu_s=1.0)})


def values() -> list[results.Line]:
    found = results.Values()
    assert found.add("speed", 73_412.6, least=60_000.0, of=(70_000.0, 73_412.6))
    assert not found.add("memory", 100.04, "MB", most=100.0)
    assert found.add("share", None, "%")
    assert not found.add("ratio", None, "times", most=1.5)
    return found.lines


def compared() -> list[results.Line]:
    cell = Cell.model_validate({"client": "quiche", "server": "quiche", "answering": "wfc"})
    block = TrialBlock("iack-loss-client", cell, 1, 3)
    simulated, real = real_time.Times((20.0,), 1, 0), real_time.Times((21.0, 22.5, 22.0), 4, 0)
    found = real_time.ComparedCell("cell", simulated, real, 20.0, 70.4)
    none = real_time.Times((), 3, 3)
    failed = real_time.ComparedCell("cell", simulated, none, None, None)
    return [real_time.result_line(block, each) for each in (found, failed)]


def campaigns() -> list[results.Line]:
    few = [StageRow("load", peak_mb=7.0), StageRow("probe", peak_mb=8.0)]
    many = [
        StageRow("load", {"Python": 2.5}, 9.4, disk_mb=3.4),
        StageRow("probe", {"prober": 1.0, "Python": 0.04}, 8.6, disk_mb=20.0, capture_mb=11.0),
    ]
    return campaign.result_lines(1000, few, many)


def times_of_the_lab() -> list[results.Line]:
    return [lab.show("send timestamp", [1.0, 3.0])]


def ack_costs() -> list[results.Line]:
    return ack_cost.result(ROUNDS, ack_cost.costs(ROUNDS))[0]


def delays() -> list[results.Line]:
    found = stack_delays.delay("quic-go", "ecdsa_p256", "1.2", BLOCKS)
    none = stack_delays.StackDelay("quiche-sf", "ecdsa_p256", no_ack_to_sh=stack_delays.NOT_BUILT)
    return [asdict(line) for line in (found, none)]


LINES: dict[str, tuple[Callable[[], Sequence[results.Line]], set[str]]] = {
    ack_cost.RESULT: (ack_costs, {"received", "rounds"}),
    campaign.RESULT: (campaigns, {"program_cpu_s"}),
    dashboard.RESULT: (lambda: [dashboard.result_line("/", 0.1, 0.2, 0.001, 0.3, 400)], set()),
    database.QUERIES_RESULT: (queries, set()),
    lab.RESULT: (times_of_the_lab, set()),
    mutants.RESULT: (lambda: mutant_counts.lines(COUNTS, dict.fromkeys(COUNTS, 200)), set()),
    real_time.RESULT: (compared, {"experiment", "cell", "rtt_ms", "late_p99_us"}),
    stack_delays.RESULT: (delays, set()),
    **{
        module.RESULT: (values, set[str]())
        for module in (
            *(crawl, database, dissector, downloads, handshake_engine, prober, resolve, routing_table),
            *(tcp_options, testbed),
        )
    },
}


@pytest.mark.parametrize("name", LINES)
def test_lines_have_the_columns_of_the_tables(name: str) -> None:
    """The second value of LINES has the columns that no table shows."""
    make, more = LINES[name]
    tables = [table for table in pages.tables().values() if table.of == name]
    named = {field.partition(".")[0] for table in tables for field in table.fields()}
    assert named
    for line in make():
        assert set(line) == named | more
    for table in tables:
        assert result_table.markdown(table, make())


def test_every_file_of_a_bench_is_tested() -> None:
    known = (json.loads(path.read_text("utf-8")) for path in (pages.DOCS / "results").glob("*.json"))
    of_benches = {c["result"] for c in known if any("python -m bench" in line for line in c["commands"])}
    assert of_benches <= set(LINES)


def test_values_of_the_lines() -> None:
    single, refused, empty, views = queries()
    assert (single["cold_s"], single["warm_s"], single["cpu_s"]) == (0.5, 0.25, 0.2)
    assert (single["hundred_million_cpu_s"], single["growth"], single["cpu_s_low"]) == (1.0, 5.0, None)
    assert all(value is None for title, value in refused.items() if title != "query")
    assert (empty["query"], empty["cpu_s"]) == ("2 queries without rows", None)
    assert (empty["cpu_s_low"], empty["cpu_s_high"]) == (0.01, 0.04)
    assert (views["query"], views["cpu_s"]) == ("views table1, iack_by_cdn", None)
    assert (views["cpu_s_low"], views["cpu_s_high"], views["growth"]) == (0.1, 0.3, None)
    assert query_lines.lines(QUERIES, None)[0]["hundred_million_cpu_s"] is None
    speed, size, share, ratio = values()
    assert (speed["measured"], speed["low"], speed["high"]) == (73_410, 70_000, 73_410)
    assert (speed["least"], speed["most"], speed["missed"]) == (60_000, None, None)
    # A value that rounds to the goal still misses it.
    assert (size["measured"], size["missed"], size["low"]) == (100.0, "missed", None)
    assert (share["measured"], share["missed"], ratio["missed"]) == (None, None, "missed")
    done, failed = compared()
    assert (done["figure"], done["real_ms"], done["more_ms"]) == ("7", 22.0, 2.0)
    assert (done["real_low_ms"], done["real_high_ms"]) == (21.0, 22.5)
    assert (failed["simulated_ms"], failed["real_ms"], failed["real_low_ms"]) == (20.0, None, None)
    load, probe, total = campaigns()
    assert (load["cpu_s"], load["captures_mb"], load["peak_mb"], load["peak_mb_few"]) == (2.5, None, 9, 7)
    assert (probe["programs"], probe["disk_mb"], probe["captures_mb"]) == ("prober 1.0", 20, 11)
    assert (total["stage"], total["cpu_s"], total["disk_mb"]) == ("sum, 1,000 names", 3.54, 23)
    assert (total["peak_mb"], total["peak_mb_few"], total["captures_mb"]) == (9, 8, 11)
    assert times_of_the_lab()[0]["p50_us"] == 2.0 and times_of_the_lab()[0]["max_us"] == 3.0


@pytest.mark.parametrize(
    ("probes", "times", "right"),
    [(10_014_720, 1, True), (9_999_360, 10, True), (10_000_000, 5, False), (1_002_000, 10, False)],
)
def test_columns_name_numbers_of_probes(probes: int, times: int, right: bool) -> None:
    assert query_lines.right_size(probes, times=times) is right


def test_mutants_that_survive_later_tests_are_added_to_the_counts() -> None:
    first = mutant_counts.lines(COUNTS, dict.fromkeys(COUNTS, 200))
    assert [line["survived_percent"] for line in first] == [7.0, 0.0, 4.67]
    assert first[-1]["of"] == 400 and {line["survive_now"] for line in first} == {None}
    later = mutant_counts.still_alive(first, {"firstflight-dissect": {"missed": 2, "caught": 5}})
    assert [line["survive_now"] for line in later] == [2, 0, 2]
    assert [line["survive_now_percent"] for line in later] == [2.0, 0.0, 1.33]
    assert [line["survived"] for line in later] == [7, 0, 7]


def test_names_of_pages() -> None:
    paths = ("/", "/cdn/Cloudflare", "/name/a.test", "/vantage/hamburg", "/queries/iack_share", "/handshakes")
    assert [dashboard.page_name(path) for path in paths] == [
        *("overview", "a CDN (Cloudflare)", "a name", "a vantage point", "a named query (`iack_share`)"),
        "handshakes",
    ]
