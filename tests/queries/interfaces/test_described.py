"""Everything in the store has a description."""

from __future__ import annotations

import pytest

from reports import query
from schemas import records, sql
from store import open_store


@pytest.mark.usefixtures("emptied_tables")
def test_every_table_and_column_has_a_comment() -> None:
    with open_store() as store:
        found = store.rows(
            "SELECT name, comment, engine FROM system.tables WHERE database = currentDatabase() ORDER BY name"
        )
        silent = store.rows(
            "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND comment = '' "
            "AND table NOT IN (SELECT name FROM system.dictionaries)"
        )
    described = {*records.stored_names(), *(view.name for view in sql.views())}
    dictionaries = {"prefix_history_of", "origin_of", "as_of"}
    assert {row["name"] for row in found} == described | dictionaries
    assert silent == []
    assert [row["name"] for row in found if not row["comment"]] == []


def test_each_example_of_the_page_is_a_command() -> None:
    """If an example were wrapped as prose, its lines would start or stop within a command."""
    examples = [line.strip() for line in query.markdown().splitlines() if line.startswith("    ")]
    assert len(examples) >= 4
    for line in examples:
        assert line.startswith("firstflight ")
        assert line.partition("#")[0].count("firstflight ") == 1
