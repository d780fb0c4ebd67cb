"""Compare order keys, projections and codecs of quic_probe: `python -m bench.storing.layout [URL]`.

Copies rows of the store at URL (default FIRSTFLIGHT_STORE) into variants of the table in a scratch store:
single columns with different codecs, and the whole table with different order keys, with and without
projections, as `--runs` runs a week apart over the same names. Prints bytes per row after merging, and the
fastest of three times for each query that the order keys serve. Removes the scratch store afterwards.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

from store import Store, open_store
from store.tables import migrate

CODECS = (
    "LZ4",
    "ZSTD(1)",
    "ZSTD(3)",
    "T64, ZSTD(1)",
    "Delta, ZSTD(1)",
    "DoubleDelta, ZSTD(1)",
)
COLUMNS = ("sent_at", "ack_us", "sh_us", "sh_to_handshake_us", "ack_delay_raw", "src_port", "bytes_received")
TEXTS = ("domain", "ip", "client_cid", "server_cid")
_BY_RUN = "run, domain, ip, port, vantage, repetition"
_BY_NAME = "domain, ip, port, vantage, run, repetition"
_NARROW = (
    "cdn, day, vantage, run, repetition, domain, ip, address_rank, outcome, attempts, ack_us, sh_us, "
    "sh_to_handshake_us, ack_delay_raw, first_ack_range, bytes_sent, bytes_received, retried"
)
# Different connection IDs of the same length.
_AFRESH = (
    "if({cid} IS NULL, NULL, substring(lower(hex(SHA256(concat({cid}, toString(n))))), 1, length({cid})))"
)
# name -> (order, projections)
LAYOUTS = {
    "by run": (_BY_RUN, ()),
    "by name": (_BY_NAME, ()),
    "by run, CDN projection": (_BY_RUN, (f"by_cdn (SELECT {_NARROW} ORDER BY (cdn, day))",)),
    "by run, name projection": (_BY_RUN, (f"by_name (SELECT {_NARROW} ORDER BY (domain, day))",)),
    "by run, offset projections": (
        _BY_RUN,
        ("by_cdn (SELECT _part_offset ORDER BY (cdn, day))", "by_name (SELECT _part_offset ORDER BY domain)"),
    ),
}
QUESTIONS = {
    "a name over time": "SELECT day, vantage, outcome, ack_us FROM {t} WHERE domain = '{name}'",
    "a name, all columns": "SELECT * FROM {t} WHERE domain = '{name}'",
    "a CDN by day": "SELECT day, quantileExact(sh_us - ack_us) FROM {t} WHERE cdn = '{cdn}' "
    "AND outcome = 'iack' GROUP BY day",
    "one run by CDN": "SELECT cdn, quantileExact(sh_us - ack_us) FROM {t} WHERE run = '{run}' GROUP BY cdn",
    "all by CDN": "SELECT cdn, quantileExact(sh_us - ack_us) FROM {t} WHERE outcome = 'iack' GROUP BY cdn",
    "all by name": "SELECT domain, countIf(outcome = 'iack'), count() FROM {t} GROUP BY domain",
}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.storing.layout")
    parser.add_argument("url", nargs="?", help="store with probes (default: FIRSTFLIGHT_STORE)")
    parser.add_argument("--names", type=int, default=8_000, help="names to take")
    parser.add_argument("--runs", type=int, default=50, help="runs to make of them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as folder:
        rows = Path(folder) / "rows.parquet"
        with open_store(options.url) as store:
            rows.write_bytes(
                store.formatted(
                    "SELECT * FROM quic_probe WHERE domain IN "
                    f"(SELECT DISTINCT domain FROM quic_probe ORDER BY domain LIMIT {options.names}) "
                    "ORDER BY domain, ip, port, vantage, run, repetition",
                    "Parquet",
                ).content
            )
        with open_store(f"chdb:{folder}/store", write=True) as store:
            migrate.migrate(store)
            _codecs(store, rows)
            _layouts(store, rows, options.runs)
    return 0


def _codecs(store: Store, rows: Path) -> None:
    print(f"{'bytes per value, in the order by name':28}")
    for column in (*COLUMNS, *TEXTS):
        found = []
        for codec in CODECS if column in COLUMNS else CODECS[:3]:
            type_ = store.rows(
                "SELECT type FROM system.columns WHERE database = currentDatabase() AND table = 'quic_probe' "
                "AND name = {name:String}",
                {"name": column},
            )[0]["type"]
            store.execute("DROP TABLE IF EXISTS one SYNC")
            store.execute(
                f"CREATE TABLE one (v {type_} CODEC({codec})) ENGINE = MergeTree ORDER BY tuple() "
                "SETTINGS min_bytes_for_wide_part = 0"
            )
            store.execute(
                f"INSERT INTO one SELECT {column} FROM file('{rows}', Parquet) SETTINGS max_threads = 1"
            )
            store.execute("OPTIMIZE TABLE one FINAL")
            size = store.rows(
                "SELECT sum(column_data_compressed_bytes) / sum(rows) AS b FROM system.parts_columns "
                "WHERE active AND database = currentDatabase() AND table = 'one'"
            )
            found.append(f"{codec} {size[0]['b']:.2f}")
        print(f"  {column:20}" + ", ".join(found))


def _layouts(store: Store, rows: Path, runs: int) -> None:
    statement = str(store.rows("SHOW CREATE TABLE quic_probe")[0]["statement"])
    names = [
        str(row["name"])
        for row in store.rows(
            "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'quic_probe' "
            "AND default_kind = '' ORDER BY position"
        )
    ]
    shifted = {
        "run": "concat(run, '-', leftPad(toString(n), 3, '0'))",
        "sent_at": "sent_at + toIntervalDay(7 * n)",
        # Values that differ in every run.
        "ack_us": "ack_us + cityHash64(domain, n, vantage, repetition) % 400",
        "sh_us": "sh_us + cityHash64(domain, n, vantage, repetition) % 400",
        **{cid: _AFRESH.format(cid=cid) for cid in ("client_cid", "server_cid")},
    }
    values = [f"{shifted.get(name, name)} AS {name}" for name in names]
    print(f"{'':28}bytes per row; ms for: {', '.join(QUESTIONS)}")
    for title, (order, projections) in LAYOUTS.items():
        store.execute("DROP TABLE IF EXISTS variant SYNC")
        ddl = statement.replace("firstflight.quic_probe", "firstflight.variant", 1)
        ddl = re.sub(r"ORDER BY \([^)]*\)", f"ORDER BY ({order})", ddl)
        store.execute(re.sub(r"\bCOMMENT '(?:[^'\\]|\\.|'')*'", "", ddl))
        for projection in projections:
            store.execute(f"ALTER TABLE variant ADD PROJECTION {projection}")
        for n in range(runs):
            store.execute(
                f"INSERT INTO variant ({', '.join(names)}) SELECT {', '.join(values)} "
                f"FROM (SELECT *, {n} AS n FROM file('{rows}', Parquet)) "
                "SETTINGS max_partitions_per_insert_block = 0"
            )
        store.execute("OPTIMIZE TABLE variant FINAL")
        (size,) = store.rows(
            "SELECT sum(bytes_on_disk) / sum(rows) AS b FROM system.parts WHERE active AND table = 'variant'"
        )
        (known,) = store.rows(
            "SELECT max(domain) AS name, max(run) AS run, anyHeavy(cdn) AS cdn FROM variant"
        )
        times = [_fastest(store, q.format(t="variant", **known) + " FORMAT Null") for q in QUESTIONS.values()]
        print(
            f"  {title:26}{size['b']:.1f}; {', '.join(f'{seconds * 1000:.0f}' for seconds in times)}",
            flush=True,
        )


def _fastest(store: Store, question: str) -> float:
    times = []
    for _ in range(3):
        start = time.monotonic()
        store.execute(question)
        times.append(time.monotonic() - start)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
