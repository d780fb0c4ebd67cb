"""Each named query on hand-made rows, with results computed by hand (conftest.py has the rows)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import UsageError
from reports import query
from store import Store
from tests.queries.conftest import LIST, RUN_1, RUN_2

Row = dict[str, Any]


def table(store: Store, name: str, columns: str, **given: str) -> list[list[Any]]:
    """Return the result as lists of the named columns' values."""
    wanted = columns.split()
    return [[row[column] for column in wanted] for row in query.rows(store, name, given)]


def near(value: float) -> Any:
    """Return `value` within the floating-point error of interpolation."""
    return pytest.approx(value, rel=1e-12)


def test_iack_share(known: Store) -> None:
    columns = "day cdn vantage repetitions names probes counted instant iack_share answered iack strict_share"
    assert table(known, "iack_share", columns) == [
        # Two days: b changes in between. e (timeout) counts in no share; h (closed) has no share.
        ["2026-11-20", "Amazon", "hamburg", 1, 1, 1, 0, 0, None, 0, 0, None],
        ["2026-11-20", "Cloudflare", "hamburg", 2, 4, 6, 5, 2, 0.4, 5, 2, 0.4],
        ["2026-11-20", "Cloudflare", "hong_kong", 1, 1, 1, 1, 1, 1, 1, 1, 1],
        ["2026-11-20", "Google", "hamburg", 1, 1, 1, 1, 1, 1, 1, 1, 1],
        # c: the paper counts a ServerHello in an earlier datagram as instant, but the outcome is not `iack`.
        ["2026-11-20", "Others", "hamburg", 1, 3, 3, 2, 2, 1, 2, 1, 0.5],
        ["2026-11-27", "Cloudflare", "hamburg", 1, 2, 2, 2, 2, 1, 2, 2, 1],
    ]
    columns = "cdn vantage probes iack"
    # The second address of g, over IPv6, counts only on request.
    all_of = {"all_addresses": "true", "cdn": "Cloudflare", "until": "2026-11-26", "vantage": "hamburg"}
    assert table(known, "iack_share", columns, **all_of) == [["Cloudflare", "hamburg", 7, 3]]
    assert table(known, "iack_share", columns, run="newest") == [["Cloudflare", "hamburg", 2, 2]]
    assert table(known, "iack_share", columns, run=RUN_1, cdn="Others") == [["Others", "hamburg", 3, 1]]


def test_ack_to_sh_quantiles(known: Store) -> None:
    columns = "day cdn vantage probes p10_us p25_us p50_us p75_us p90_us p99_us"
    # Cloudflare: 3000, 3200, 4200, 5200, 40000. d answered at the second attempt, so Others has no row.
    assert table(known, "ack_to_sh_quantiles", columns) == [
        [None, "Cloudflare", None, 5, near(3_080), 3_200, 4_200, 5_200, near(26_080), near(38_608)],
        [None, "Google", None, 1, *[3_200] * 6],
    ]
    # Three coalesced answers of the first run count as 0: 0, 0, 0, 3200, 4200.
    given = {"with_coalesced": "true", "by_vantage": "true", "by_day": "true", "cdn": "Cloudflare"}
    columns = "day vantage probes p25_us p50_us p75_us"
    assert table(known, "ack_to_sh_quantiles", columns, **given) == [
        ["2026-11-20", "hamburg", 5, 0, 0, 3_200],
        ["2026-11-20", "hong_kong", 1, 40_000, 40_000, 40_000],
        ["2026-11-27", "hamburg", 2, 3_550, 4_100, 4_650],
    ]


def test_newest_data(known: Store) -> None:
    columns = "vantage run outcome probes newest_at"
    assert table(known, "newest_data", columns) == [
        ["hamburg", RUN_2, "iack", 2, "2026-11-27 06:00:00.000000000"],
        ["hong_kong", RUN_1, "iack", 1, "2026-11-20 06:00:00.000000000"],
    ]


def test_sh_to_handshake(known: Store) -> None:
    columns = "cdn answered no_handshake same_datagram same_datagram_share p25_us p50_us p75_us p90_us p99_us"
    # Cloudflare saw the Handshake packet three times: 0, 0, 150.
    assert table(known, "sh_to_handshake", columns) == [
        ["Cloudflare", 8, 5, 2, pytest.approx(2 / 3), 0, 0, 75, near(120), 147],
        ["Google", 1, 1, 0, None, None, None, None, None, None],
        ["Others", 1, 0, 0, 0, 900, 900, 900, 900, 900],
    ]
    assert table(known, "sh_to_handshake", "cdn answered p50_us", outcome="coalesced") == [
        ["Cloudflare", 3, 0]
    ]


def test_changed_behaviour(known: Store) -> None:
    assert query.rows(known, "changed_behaviour", {"since": "2026-11-27"}) == [
        {
            "domain": "b.example",
            "cdn_before": "Cloudflare",
            "cdn_since": "Cloudflare",
            "before": "waiting",
            "since": "instant",
            "probes_before": 2,
            "iack_before": 0,
            "probes_since": 1,
            "iack_since": 1,
            "last_day_before": "2026-11-20",
            "first_day_since": "2026-11-27",
        }
    ]
    for given in (
        {"since": "2026-11-20"},
        {"since": "2026-11-28"},
        {"since": "2026-11-27", "vantage": "hong_kong"},
    ):
        assert query.rows(known, "changed_behaviour", given) == []


def test_first_iack(known: Store) -> None:
    columns = "cdn vantage first_iack_at first_day run answered iack"
    at = "2026-11-20 06:00:00.000000000"
    assert table(known, "first_iack", columns) == [
        ["Cloudflare", None, at, "2026-11-20", RUN_1, 8, 5],
        ["Google", None, at, "2026-11-20", RUN_1, 1, 1],
        ["Others", None, at, "2026-11-20", RUN_1, 2, 1],
        ["Amazon", None, None, None, None, 0, 0],
    ]
    found = table(known, "first_iack", columns, since="2026-11-21", by_vantage="true")
    assert found == [["Cloudflare", "hamburg", "2026-11-27 06:00:00.000000000", "2026-11-27", RUN_2, 2, 2]]


def test_amplification(known: Store) -> None:
    columns = "cdn probes above above_share highest"
    # b received 3757 bytes for 1252; 3756 are exactly three times and not above. i was validated by a Retry.
    assert table(known, "amplification", columns) == [
        ["Amazon", 1, 0, 0, 0],
        ["Cloudflare", 9, 1, pytest.approx(1 / 9), 3_757 / 1_252],
        ["Others", 2, 0, 0, 3_600 / 1_252],
    ]
    assert table(known, "amplification", columns, above="2.9", cdn="Cloudflare") == [
        ["Cloudflare", 9, 2, pytest.approx(2 / 9), 3_757 / 1_252]
    ]
    columns = "domain ip vantage repetition bytes_received"
    assert table(known, "amplification_names", columns) == [["b.example", "198.18.48.1", "hamburg", 1, 3_757]]
    found = table(known, "amplification_names", columns, above="2.9")
    assert [row[0] for row in found] == ["b.example", "a.example"]


def test_spurious_expected(known: Store) -> None:
    columns = "cdn vantage probes spurious spurious_share rtt_p50_us ack_to_sh_p50_us"
    # a from Hong Kong: 40 ms after an ACK of 10 ms.
    assert table(known, "spurious_expected", columns) == [
        ["Cloudflare", None, 5, 1, 0.2, 20_000, 4_200],
        ["Google", None, 1, 0, 0, 20_000, 3_200],
    ]
    assert table(known, "spurious_expected", columns, by_vantage="true", vantage="hong_kong") == [
        ["Cloudflare", "hong_kong", 1, 1, 1, 10_000, 40_000]
    ]


def test_addresses_disagree(known: Store) -> None:
    found = query.rows(known, "addresses_disagree")
    # b changed between two runs and is not listed: within a repetition its answers are consistent.
    assert found == [
        {"run": RUN_1, "vantage": "hamburg", "repetition": 1, "domain": "g.example"}
        | {"instant": ["2001:db8:48::7"], "waiting": ["198.18.48.7"], "cdns": ["Cloudflare"]}
    ]
    assert query.rows(known, "addresses_disagree", {"cdn": "Google"}) == []


def test_list_share(known: Store) -> None:
    columns = "list_id measure top names_listed names_probed names_counted counted instant iack_share iack "
    columns += "strict_share"
    assert table(known, "list_share", columns, run=RUN_1) == [
        [LIST, "rank", 1_000, 3, 2, 2, 5, 3, 0.6, 3, 0.6],
        [LIST, "rank", 10_000, 4, 3, 3, 6, 4, pytest.approx(2 / 3), 3, 0.5],
        [LIST, "rank", 100_000, 5, 4, 3, 6, 4, pytest.approx(2 / 3), 3, 0.5],
        [LIST, "bucket", 1_000, 3, 2, 2, 4, 4, 1, 4, 1],
        [LIST, "bucket", 10_000, 5, 4, 3, 6, 4, pytest.approx(2 / 3), 4, pytest.approx(2 / 3)],
        [LIST, "bucket", 100_000, 5, 4, 3, 6, 4, pytest.approx(2 / 3), 4, pytest.approx(2 / 3)],
    ]
    # The newest run loaded no list, but it can be joined with the other run's list.
    assert query.rows(known, "list_share") == []
    columns = "measure top names_listed names_probed counted instant"
    assert table(known, "list_share", columns, list_id=LIST, tops="1,5000") == [
        ["rank", 1, 1, 1, 1, 1],
        ["rank", 5_000, 4, 2, 2, 2],
        ["bucket", 5_000, 4, 2, 2, 2],
    ]


@pytest.mark.parametrize("name", query.names())
def test_every_query_is_described(known: Store, name: str) -> None:
    described = query.load(name)
    assert described.answers.endswith("?") and "\n" not in described.answers
    given = {"since": "2026-11-27"} if name == "changed_behaviour" else {}
    text = described.rendered(given, known.dialect)
    columns = known.rows(f"DESCRIBE TABLE ({text})")
    assert [row["name"] for row in columns] == list(described.columns)
    assert all(meaning.endswith((".", ")")) for meaning in described.columns.values())
    # The parameters in the SQL and in the descriptions are the same, with the same types.
    assert dict(re.findall(r"\{(\w+):([\w()]+)\}", described.text)) == {
        parameter.name: parameter.type for parameter in described.parameters
    }
    assert "{" not in re.sub(r"'[^']*'", "", text)


def test_roll_ups_give_the_same_answers_where_they_have_all_probes(known: Store) -> None:
    assert query.rows(known, "not_rolled_up") == []
    differs = []
    for name in query.names():
        given = {"since": "2026-11-27"} if name == "changed_behaviour" else {}
        named_query = query.load(name)
        text, direct = (
            named_query.rendered(given, known.dialect, rolled_up=rolled_up) for rolled_up in (False, True)
        )
        if text != direct:
            differs.append(name)
            assert "_all" not in direct.replace("all_addresses", ""), name
            assert known.rows(direct) == known.rows(text), name
    # The queries of the dashboard's panels by day are among them.
    assert {"delay_bands", "outcomes_over_time", "share_over_time", "known_names"} <= set(differs)


HOSTILE = [
    "'",
    "\\",
    "\\'",
    "' OR 1 --",
    "{cdn:String}",
    "${database}",
    "ü\n\t\0",
    "%s",
    "a'); DROP TABLE run; --",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_values_are_values(known: Store, value: str) -> None:
    text = query.load("iack_share").rendered({"cdn": value}, known.dialect)
    literal = text.split("OR probe_day.cdn = ")[1].split(")\n    AND day BETWEEN")[0]
    assert known.rows(f"SELECT {literal} AS v") == [{"v": value}]
    assert query.rows(known, "iack_share", {"cdn": value}) == []


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("nonsense", {}, "there is no query 'nonsense'; `firstflight query` lists them"),
        ("iack_share", {"cnd": "x"}, "the query iack_share has no parameter 'cnd'; it has run, vantage, cdn"),
        ("iack_share", {"since": "2026-02-30"}, "since=2026-02-30: a date like 2026-11-20 expected"),
        ("iack_share", {"since": "1969-12-31"}, "a date like 2026-11-20 expected"),
        ("iack_share", {"all_addresses": "maybe"}, "all_addresses=maybe: true or false expected"),
        ("amplification", {"above": "nan"}, "above=nan: a number expected"),
        ("amplification_names", {"limit": "-1"}, "limit=-1: a whole number expected"),
        ("list_share", {"tops": "1,two"}, "tops=1,two: whole numbers joined by commas expected"),
        ("changed_behaviour", {}, "the query changed_behaviour needs --param since=...: The date"),
    ],
)
def test_errors_are_reported(known: Store, name: str, given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        query.rows(known, name, given)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_page_is_current() -> None:
    page = (Path(__file__).parents[3] / "docs" / "queries.md").read_text(encoding="utf-8")
    made = subprocess.run([sys.executable, "-m", "reports.query"], capture_output=True, text=True, check=True)
    assert page == made.stdout, "run: python -m reports.query > docs/queries.md"
