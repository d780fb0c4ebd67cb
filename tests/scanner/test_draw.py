"""The sample of names for the handshake stage: the same in every repetition, shard and order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from firstflight.as_map import CDN_MAP_FILE, RIB_FILE, Mapper
from firstflight.errors import UsageError
from firstflight.sampling import number
from firstflight.settings import Handshake
from firstflight.shard import WHOLE, Shard, all_of
from scanner.driver import choose
from scanner.driver.draw import sampled_rows

SEED = 7
# Odd names have addresses of Fastly.
NAMES = [f"name{n}.example" for n in range(2000)]


def plan(names: list[str], families: tuple[int, ...] = (4, 6)) -> pa.Table:
    """Return a plan of names, two addresses each, as choose returns it."""
    rows = []
    for name in names:
        n = int(name.removeprefix("name").split(".")[0])
        addresses = {4: f"198.18.{32 + n % 2 * 16}.1", 6: f"2001:db8:{n % 2}::1"}
        rows += [{"domain": name, "ip": addresses[family]} for family in families]
    table = pa.Table.from_pylist(rows, schema=pa.schema([choose.PLAN.field(n) for n in ("domain", "ip")]))
    for place, field in enumerate(choose.PLAN):
        if field.name == "target":
            table = table.add_column(0, field, pa.array(range(2, 2 + len(rows)), field.type))
        elif field.name not in table.column_names:
            table = table.add_column(place, field, pa.nulls(len(rows), field.type))
    return table


@pytest.fixture(scope="module")
def mapper(tmp_path_factory: pytest.TempPathFactory) -> Mapper:
    folder = tmp_path_factory.mktemp("as_data")
    (folder / RIB_FILE).write_text(
        "198.18.32.0/20\t64500\n198.18.48.0/20\t54113\n2001:db8:0::/48\t64500\n2001:db8:1::/48\t54113\n"
    )
    (folder / CDN_MAP_FILE).write_text("[cdn]\nFastly = [54113]\n")
    return Mapper(folder)


def chosen(
    mapper: Mapper, names: list[str], shard: Shard = WHOLE, seed: int = SEED, **keys: object
) -> list[str]:
    """Return the sampled names, each once. Check that the sample has both addresses of a name or neither."""
    table = plan(names)
    mask = sampled_rows(table, Handshake.model_validate(keys), seed, mapper, shard)
    assert (mask[0::2] == mask[1::2]).all()
    return [name for name, wanted in zip(names, mask[0::2], strict=True) if wanted]


@pytest.mark.parametrize(
    ("share", "low", "high"), [(0.0, 0, 0), (0.1, 150, 250), (0.5, 930, 1070), (1.0, 2000, 2000)]
)
def test_a_share_of_the_names_is_drawn(mapper: Mapper, share: float, low: int, high: int) -> None:
    assert low <= len(chosen(mapper, NAMES, share=share)) <= high


def test_the_draw_depends_only_on_seed_and_name(mapper: Mapper) -> None:
    first = chosen(mapper, NAMES, share=0.1)
    assert chosen(mapper, NAMES[::-1], share=0.1) == first[::-1]
    assert chosen(mapper, NAMES[500:], share=0.1) == [name for name in first if NAMES.index(name) >= 500]
    assert set(first) < set(chosen(mapper, NAMES, share=0.2))
    other = chosen(mapper, NAMES, seed=SEED + 1, share=0.1)
    assert len(set(first) & set(other)) < len(first) / 2
    # A name's number must never change. Otherwise, further repetitions of existing runs would sample other
    # names.
    assert number(7, "name0.example") == 13197029251716215776


def test_only_addresses_of_the_named_cdns(mapper: Mapper) -> None:
    found = chosen(mapper, NAMES, share=1, cdn=["Fastly"])
    assert found == NAMES[1::2]
    assert chosen(mapper, NAMES, share=1, cdn=["Fastly", "Others"]) == NAMES
    with pytest.raises(
        UsageError, match=r"handshake\.cdn names Fastli, which the CDN map does not have; it has Fas"
    ):
        chosen(mapper, NAMES, cdn=["Fastli"])


@pytest.mark.parametrize("shards", [1, 3])
def test_a_limit_holds_for_all_shards_together(mapper: Mapper, shards: int) -> None:
    found = []
    for shard in all_of(shards):
        shard_names = [
            name
            for name, is_of_shard in zip(NAMES, shard.holds(n.encode() for n in NAMES), strict=True)
            if is_of_shard
        ]
        found += chosen(mapper, shard_names, shard, share=0.5, limit=100)
    assert len(set(found)) == len(found) == 100
    if shards == 1:  # the names with the smallest numbers, with any share
        ordered = sorted(NAMES, key=lambda name: number(SEED, name))
        assert set(found) == set(ordered[:100])
    assert chosen(mapper, NAMES, share=0.5, limit=5000) == chosen(mapper, NAMES, share=0.5)


def test_a_drawn_plan_is_numbered_like_the_lines_of_its_file(mapper: Mapper) -> None:
    table = plan(NAMES[:50])
    mask = sampled_rows(table, Handshake(share=0.3), SEED, mapper, WHOLE)
    found = choose.select_rows(table, mask)
    assert found["target"].to_pylist() == list(range(2, 2 + int(np.count_nonzero(mask))))
    assert found["domain"].to_pylist() == table["domain"].filter(pa.array(mask)).to_pylist()
    assert choose.select_rows(table, np.zeros(100, dtype=bool)).num_rows == 0
