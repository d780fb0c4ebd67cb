"""Shards: every name belongs to exactly one shard, in any list; paths, limits and ports of shards."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from firstflight.egress import shared_limits
from firstflight.errors import UsageError
from firstflight.layout import RunLayout, StageKey
from firstflight.settings import Settings, check
from firstflight.shard import MOST, WHOLE, Shard, all_of, of_folder, parse

RUN = "20261120T063905Z-a1b2c3"
HOSTILE = [
    b"",
    b"a",
    b"A",
    b"a.",
    b"\x00",
    b"\xff\xfe",
    "bücher.example".encode(),
    b"xn--bcher-kva.example",
    b"a," * 200,
    b"'; DROP TABLE dns_answer; --",
    b"same.example",
    b"same.example",
]


def names(seed: int) -> list[bytes]:
    """Return random names from a seed, as in target lists, including hostile names."""
    draw = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789-"
    made = ["".join(draw.choices(letters, k=draw.randint(1, 20))).encode() + b".example" for _ in range(6000)]
    mixed = [*made, *HOSTILE]
    draw.shuffle(mixed)
    return mixed


@pytest.mark.parametrize("of", [1, 2, 3, 7, 16, MOST])
def test_shards_are_disjoint_complete_and_even(of: int) -> None:
    given = names(of)
    held_by_shard = [shard.holds(given) for shard in all_of(of)]
    assert all(sum(holders) == 1 for holders in zip(*held_by_shard, strict=True))
    counts = [sum(held_names) for held_names in held_by_shard]
    mean = len(given) / of
    assert all(abs(count - mean) < 5 * mean**0.5 + 1 for count in counts), counts


def test_a_name_stays_with_its_shard_wherever_it_is() -> None:
    given = names(1)
    for shard in all_of(5):
        before = {name for name, is_held in zip(given, shard.holds(given), strict=True) if is_held}
        other = sorted(given)[::-1]
        assert before == {name for name, is_held in zip(other, shard.holds(other), strict=True) if is_held}


def test_the_hash_never_changes() -> None:
    """Loads replace rows of earlier versions by shard, so the hash stays zlib's CRC-32 of the name."""
    assert [shard.holds([b"123456789"]) for shard in all_of(3)] == [
        [index == 0xCBF43926 % 3] for index in range(3)
    ]


@pytest.mark.parametrize("text", ["0/3", "2/3", "0/1", f"{MOST - 1}/{MOST}"])
def test_shards_are_printed_as_given(text: str) -> None:
    shard = parse(text)
    assert str(shard) == text
    assert of_folder(shard.folder) == shard


@pytest.mark.parametrize(
    "text", ["", "1", "3/3", "-1/3", "0/0", "0/65", "1/3/5", "a/b", "0 / 3", "0/3\n", "٠/٣", "0x0/3"]
)
def test_no_other_text_is_a_shard(text: str) -> None:
    with pytest.raises(UsageError, match=r"(is not a|there is no) shard"):
        parse(text)


@pytest.mark.parametrize(
    "name", ["probe", "shard-3-of-3", "shard-00-of-3", "shard-0-of-3-old", "shard-0-of-99"]
)
def test_no_other_folder_is_a_shard(name: str) -> None:
    assert of_folder(name) == WHOLE


def test_a_shard_has_separate_folders(tmp_path: Path) -> None:
    layout, key = RunLayout(tmp_path / RUN), StageKey(RUN, "hamburg", 2, Shard(1, 3))
    path = layout.quic_probe(key)
    assert layout.name_of(path) == f"{RUN}/hamburg/2/shard-1-of-3/probe/quic_probe.parquet"
    assert (layout.key_of(path), layout.key_of(layout.quic_probe(key.whole))) == (key, key.whole)
    assert layout.log("probe", key).name == "probe-hamburg-2-shard-1-of-3.log"
    assert list(key.earlier()) == [StageKey(RUN, "hamburg", 1, Shard(1, 3))]
    assert key.columns() == key.whole.columns()
    aside = layout.root / "hamburg" / "2" / "shard-1-of-3-old" / "probe" / "report.json"
    for report in (layout.report("probe", key), aside):
        report.parent.mkdir(parents=True)
        report.touch()
    assert list(layout.reports()) == [layout.report("probe", key)]


def settings(shards: list[int], *, together: bool = True, ports: str = "61000-61031") -> Settings:
    vantages = [{"name": f"v{n}", "shards": count, "ports": ports} for n, count in enumerate(shards)]
    data = {
        "campaign": {"contact": "x", "shared_limits": together},
        "targets": {"source": "file", "file": "list"},
        "as_data": {"rib": "file", "files": ["rib"]},
        "vantage": vantages,
    }
    return check(data, "test", Path("/"), check_files=False)


@pytest.mark.parametrize(
    ("shards", "together", "expected"),
    [
        ([1], True, [None]),
        ([3], True, ["0/3", "1/3", "2/3"]),
        ([1, 1], True, ["0/2", "1/2"]),
        ([2, 1, 3], True, ["0/6", "1/6", "2/6", "3/6", "4/6", "5/6"]),
        ([2, 1, 3], False, ["0/2", "1/2", None, "0/3", "1/3", "2/3"]),
    ],
)
def test_each_shard_has_separate_turns(shards: list[int], together: bool, expected: list[str | None]) -> None:
    given = settings(shards, together=together)
    turns = [
        shared_limits.turn_of(given, vantage.name, shard)
        for vantage in given.vantage
        for shard in all_of(vantage.shards)
    ]
    assert [None if turn is None else f"{turn.index}/{turn.count}" for turn in turns] == expected


@pytest.mark.parametrize("together", [True, False])
def test_an_unsharded_run_has_the_turns_of_the_first_shard(together: bool) -> None:
    given = settings([1, 3], together=together)
    whole, first = (shared_limits.turn_of(given, "v1", shard) for shard in (WHOLE, all_of(3)[0]))
    assert whole == first is not None


@pytest.mark.parametrize("count", [2, 3, 5, 16])
def test_shards_divide_ports_and_rate(count: int) -> None:
    given = settings([count])
    (vantage,) = given.vantage
    ranges = [given.ports_at(vantage, shard=shard).split("-") for shard in all_of(count)]
    ports = [port for first, last in ranges for port in range(int(first), int(last) + 1)]
    assert ports == list(range(61000, 61032))
    rates = [given.rate_at(vantage, shard) for shard in all_of(count)]
    assert sum(rates) == pytest.approx(given.rate_at(vantage))


def test_too_few_ports_for_the_shards_are_refused() -> None:
    with pytest.raises(UsageError, match="3 shards of v0 need two ports each, not 61000-61004"):
        settings([3], ports="61000-61004")


def test_settings_without_shards_are_written_as_before() -> None:
    unsharded, sharded = settings([1]).model_dump(mode="json"), settings([3]).model_dump(mode="json")
    assert "shards" not in unsharded["vantage"][0]
    assert sharded["vantage"][0]["shards"] == 3
