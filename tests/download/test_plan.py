"""The sample of files, and the times at which a vantage point may start a download."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from downloader import option_sets
from downloader.files import draw, targets
from downloader.files.survey import OPTIONS, Survey
from downloader.files.targets import Target
from downloader.shared_limits import DownloadTurn
from firstflight.errors import InputError
from firstflight.sampling import number

FILES = [
    targets.of(line, f"https://n{line}.{cdn}.test/", f"192.0.2.{line}")
    for line, cdn in enumerate(["a"] * 10 + ["b"] * 3 + ["others"] * 7, start=2)
]


def cdn_of(ip: str) -> str | None:
    """Return the CDN by the file's place in the list."""
    line = int(ip.rpartition(".")[2])
    return "A" if line < 12 else "B" if line < 15 else None


@pytest.mark.parametrize(
    ("per_cdn", "others", "sizes"),
    [(5, 2, (5, 3, 2)), (3, 7, (3, 3, 7)), (None, 1, (10, 3, 1)), (1, None, (1, 1, 7))],
)
def test_groups_are_drawn_and_never_filled(
    per_cdn: int | None, others: int | None, sizes: tuple[int, ...]
) -> None:
    chosen, groups = draw.sampled_targets(FILES, cdn_of, 7, per_cdn, others)
    assert groups == {"A": 10, "B": 3, "Others": 7}
    drawn = [cdn_of(target.ip) for target in chosen]
    assert tuple(drawn.count(cdn) for cdn in ("A", "B", None)) == sizes
    assert [target.line for target in chosen] == sorted(target.line for target in chosen)


def test_the_seed_draws() -> None:
    first = draw.sampled_targets(FILES, cdn_of, 1, 5, 5)[0]
    assert first == draw.sampled_targets(reversed(FILES), cdn_of, 1, 5, 5)[0]
    assert any(first != draw.sampled_targets(FILES, cdn_of, seed, 5, 5)[0] for seed in range(2, 6))


def starts(turn: DownloadTurn, target: Target, end: float) -> list[float]:
    """Return the start times (s) for a vantage point that starts whenever it may."""
    found, now = [], 0.0
    while (now := now + turn.begins_in(target, now)) < end:
        found.append(now)
        now += 0.25
    return found


@pytest.mark.parametrize("of", [2, 3, 4])
@pytest.mark.parametrize("target", FILES[:4], ids=str)
def test_runs_from_all_vantage_points_are_a_pause_apart(of: int, target: Target) -> None:
    pause = 3.0
    moments_by_vantage = [starts(DownloadTurn(index, of, pause), target, 200.0) for index in range(of)]
    assert all(moments_by_vantage), "each has its turns"
    marked = sorted((moment, index) for index, moments in enumerate(moments_by_vantage) for moment in moments)
    for (before, vantage), (after, next_vantage) in itertools.pairwise(marked):
        assert vantage == next_vantage or after - before >= pause
    # During its turn a vantage point starts immediately.
    assert DownloadTurn(0, of, pause).begins_in(target, moments_by_vantage[0][0]) == 0


def test_a_single_vantage_point_never_waits() -> None:
    assert {
        DownloadTurn(0, 1, 10.0).begins_in(target, now) for target in FILES for now in (0.0, 7.0, 11.0)
    } == {0.0}


def test_the_target_that_may_start_first_is_chosen() -> None:
    turn = DownloadTurn(0, 3, 5.0)
    for now in range(0, 60, 3):
        place, wait = turn.choose(FILES, now)
        assert wait == min(turn.begins_in(target, now) for target in FILES)
        assert turn.begins_in(FILES[place], now) == wait


def answered(target: Target, **changes: Any) -> dict[str, Any]:
    """Return a row of the survey in which a target accepts all options, with `changes` applied."""
    options = dict.fromkeys(("window_scaling", "sack", "ecn"), True)
    return {"domain": target.domain, "ip": target.ip, "outcome": "answered", **options, **changes}


def shaken(target: Target, outcome: str = "done", alpn: str | None = "h3") -> dict[str, Any]:
    """Return a row of a handshake."""
    return {"domain": target.domain, "ip": target.ip, "outcome": outcome, "alpn": alpn}


def surveyed(folder: Path, **rows_of_kind: list[dict[str, Any]]) -> Survey:
    """Return the survey with these rows: options, handshakes, crawl."""
    for name, rows in rows_of_kind.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / name)
    return Survey(folder / "options", folder / "handshakes", folder / "crawl")


def test_only_names_that_accept_all_options_are_drawn(tmp_path: Path) -> None:
    """At the address in the draw, in an answer of which all three options are known."""
    wrong: list[dict[str, Any]] = [{option: value} for option in OPTIONS for value in (False, None)]
    wrong += [{"outcome": "timeout"}, {"ip": "192.0.2.99"}, {"domain": "other.test"}]
    rows = [answered(target, **change) for target, change in zip(FILES, wrong, strict=False)]
    supporting = FILES[len(wrong) :]
    rows += [answered(target) for target in supporting]
    # Of several rows of an address, one suffices.
    rows.append(answered(supporting[0], sack=False))
    survey = surveyed(tmp_path, options=rows)
    chosen, groups = draw.of_survey(FILES, survey, cdn_of, 7, None, None, None)
    assert chosen == [replace(target, target_set="tcp") for target in supporting]
    # A and B are no groups of the paper.
    assert groups == {"Others": len(supporting)}
    with pytest.raises(InputError, match=r'run the tcp_options stage first, or set download\.draw = "names"'):
        Survey(tmp_path / "none", tmp_path / "none", tmp_path / "none")


def test_the_groups_of_the_paper(tmp_path: Path) -> None:
    survey = surveyed(tmp_path, options=[answered(target) for target in FILES])
    names: dict[str | None, str | None] = {"A": "Google", "B": "Fastly", None: None}
    chosen, groups = draw.of_survey(FILES, survey, lambda ip: names[cdn_of(ip)], 7, 4, 5, None)
    assert groups == {"Google": 10, "Others": 10}
    assert [cdn_of(target.ip) == "A" for target in chosen].count(True) == 4
    assert len(chosen) == 9


def test_http3_is_known_from_handshakes_or_else_the_crawl(tmp_path: Path) -> None:
    handshakes = [
        shaken(FILES[0]),
        shaken(FILES[1], "timeout", None),
        shaken(FILES[2], "done", "hq-interop"),
        shaken(FILES[3], "blocked", None),
        shaken(FILES[4], "timeout", None),
        shaken(FILES[4]),
        shaken(FILES[5], "handshake_failed"),
        shaken(replace(FILES[6], ip="192.0.2.99")),
    ]
    announced = {1: 'h3=":443"', 2: 'h3=":443"', 3: 'h2=":443", h3=":443"; ma=1', 7: 'h3-29=":443"', 8: None}
    crawl = [{"domain": FILES[n].domain, "alt_svc": text} for n, text in announced.items()]
    options = [answered(FILES[0])]
    survey = surveyed(tmp_path, options=options, handshakes=handshakes, crawl=crawl)
    assert [survey.speaks_http3(target) for target in FILES[:9]] == [
        *(True, False, False, True, True, False, False, False, False)
    ]
    (tmp_path / "handshakes").unlink()
    (tmp_path / "crawl").rename(tmp_path / "kept")
    assert not any(
        Survey(*(tmp_path / name for name in ("options", "none", "none"))).speaks_http3(f) for f in FILES
    )
    survey = Survey(tmp_path / "options", tmp_path / "none", tmp_path / "kept")
    assert [survey.speaks_http3(target) for target in FILES[:4]] == [False, True, True, True]


@pytest.mark.parametrize(
    ("quic", "sizes"), [(None, (3, 2)), (4, (3, 1)), (3, (3, 0)), (2, (2, 0)), (0, (0, 0))]
)
def test_the_quic_target_set_begins_with_the_tcp_target_set(
    tmp_path: Path, quic: int | None, sizes: tuple[int, int]
) -> None:
    speaking = FILES[:5]
    survey = surveyed(
        tmp_path,
        options=[answered(target) for target in FILES],
        handshakes=[shaken(target) for target in speaking],
    )
    # The first three in the order of the draw that speak HTTP/3 are in the TCP target set.
    order = sorted(FILES, key=lambda target: number(7, target.domain))
    others = 1 + [index for index, target in enumerate(order) if target in speaking][2]
    chosen, _ = draw.of_survey(reversed(FILES), survey, cdn_of, 7, None, others, quic)
    sets = Counter(target.target_set for target in chosen)
    assert (sets["both"], sets["quic"]) == sizes
    assert sets["both"] + sets["tcp"] == others
    assert [target.line for target in chosen] == sorted(target.line for target in chosen)
    assert all(
        replace(target, target_set=None) in speaking for target in chosen if target.target_set != "tcp"
    )


def test_the_sets_of_a_target_set() -> None:
    sets = option_sets.chosen("bl,sack,all14,quiche,aioquic")

    def names(target_set: str | None) -> list[str]:
        return [option_set.name for option_set in option_sets.of_target_set(sets, target_set)]

    assert names("tcp") == ["warmup", "bl", "sack", "all14"]
    assert names("quic") == ["warmup", "bl", "all14", "quiche", "aioquic"]
    assert names("both") == names(None) == ["warmup", "bl", "sack", "all14", "quiche", "aioquic"]


def test_a_target_is_resolved_when_its_run_may_start() -> None:
    """If resolving takes longer than the rest of the turn, the target stays for the next turn."""
    turn = DownloadTurn(0, 2, 10.0)
    moved: list[Target] = []
    started = next(now for now in range(40) if turn.begins_in(FILES[0], now) == 0)

    def again(target: Target) -> Target:
        moved.append(target)
        return replace(target, ip="192.0.2.99")

    for elapsed, is_taken in ((0.0, True), (9.5, True), (10.0, False), (25.0, False)):
        times = iter([started, started + elapsed])
        remaining = [FILES[0]]
        found = turn.take(remaining, times.__next__, again)
        assert moved.pop() == FILES[0]
        if is_taken:
            assert (found, remaining) == (replace(FILES[0], ip="192.0.2.99"), [])
        else:
            assert (found, remaining) == (turn.begins_in(FILES[0], started + elapsed), [FILES[0]])
    remaining = [FILES[0]]
    assert turn.take(remaining, lambda: started + 10.0, again) == 30.0 and not moved, "not its turn"
    assert turn.take(remaining, lambda: started) == FILES[0] and not remaining


def test_the_turn_of_a_name_does_not_depend_on_its_address() -> None:
    turn = DownloadTurn(0, 3, 5.0)
    for target in FILES:
        assert turn.begins_in(replace(target, ip="192.0.2.99"), 3.0) == turn.begins_in(target, 3.0)


def test_files_of_a_crawl_at_the_vantage_points_own_addresses(tmp_path: Path) -> None:
    """Each file gets its name's first address, or no address if there is none. Missing files are omitted."""
    crawled = [
        {"domain": "a.test", "url": "https://www.a.test/1", "outcome": "found"},
        {"domain": "b.test", "url": "https://b.test/2", "outcome": "found"},
        {"domain": "c.test", "url": "https://c.test/3", "outcome": "too_large"},
        {"domain": "wiki", "url": "https://wiki/4", "outcome": "found"},
        {"domain": "d.test", "url": "https://d.test/5 6", "outcome": "found"},
    ]
    answers = [
        {"domain": "a.test", "qtype": "A", "status": "NOERROR", "answer_rank": 1, "address": "192.0.2.9"},
        {"domain": "a.test", "qtype": "A", "status": "NOERROR", "answer_rank": 0, "address": "192.0.2.1"},
        {
            "domain": "a.test",
            "qtype": "AAAA",
            "status": "NOERROR",
            "answer_rank": 0,
            "address": "2001:db8::1",
        },
        {"domain": "b.test", "qtype": "A", "status": "SERVFAIL", "answer_rank": 0, "address": None},
        {"domain": "c.test", "qtype": "A", "status": "NOERROR", "answer_rank": 0, "address": "192.0.2.3"},
    ]
    for name, rows in (("files", crawled), ("answers", answers)):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    found, rejected = draw.of_crawl(tmp_path / "files", tmp_path / "answers")
    assert [(file.domain, file.host, file.ip, file.url) for file in found] == [
        ("a.test", "www.a.test", "192.0.2.1", "https://www.a.test/1"),
        ("b.test", "b.test", "", "https://b.test/2"),
        ("wiki", "wiki", "", "https://wiki/4"),
    ]
    assert [(rejection.line, rejection.reason) for rejection in rejected] == [
        (6, "'https://d.test/5 6' has characters that a URL cannot hold")
    ]
    for first, second in (("files", "none"), ("none", "answers")):
        with pytest.raises(InputError, match="there is no"):
            draw.of_crawl(tmp_path / first, tmp_path / second)
