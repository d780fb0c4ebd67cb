"""`firstflight sql`: answers, refusals, and concurrent use."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firstflight.errors import UsageError
from schemas import sql as sql_files
from store import ask, open_store
from store.errors import StoreError, StoreHeld
from store.load import loader
from tests import drawn
from tests.store.rows import probe, write

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FIRSTFLIGHT, *arguments], capture_output=True, text=True, check=False, input=text)


@pytest.fixture
def one_probe(tables: Path, tmp_path: Path) -> None:
    assert tables.is_dir()
    loader.load_files([write(tmp_path / "quic_probe.parquet", [probe(ip="198.18.48.1")])])


@pytest.mark.usefixtures("one_probe")
def test_json_lines_have_every_column_and_unquoted_integers() -> None:
    done = run("sql", "SELECT * FROM quic_probe", "--format", "JSONEachRow")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert (row["ip"], row["ack_us"], row["retry_us"]) == ("198.18.48.1", 20_000, None)
    assert (row["ack_to_sh_us"], row["ack_delay_us"]) == (3_200, 200)  # computed, but shown
    assert row["sent_at"] == "2026-11-20 06:00:00.123456789"


@pytest.mark.usefixtures("one_probe")
def test_a_join_without_partner_gives_null() -> None:
    join = "quic_probe LEFT JOIN quic_connection ON quic_probe.ip = quic_connection.server_ip"
    done = run("sql", f"SELECT first_answer FROM {join}", "--format", "JSONEachRow")
    assert done.stdout == '{"first_answer":null}\n', done.stderr


@pytest.mark.usefixtures("one_probe")
def test_a_program_gets_tsv_and_may_ask_on_standard_input() -> None:
    done = run("sql", "-", text="SELECT cdn, domains FROM table1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Cloudflare\t1\n", "")


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("clause", "shown"),
    [
        ("", "12080.400000000001\t1e-9"),
        (" FORMAT PrettyCompact", "12080.4 "),
        (" FORMAT PrettySpace", "12080.4"),
        (" FORMAT Vertical", "12080.4\n"),
        (" FORMAT TSV", "12080.400000000001\t1e-9"),
        (" FORMAT JSONEachRow", '{"sum":12080.400000000001,"small":1e-9}'),
    ],
)
def test_tables_for_people_are_rounded_and_data_is_not(clause: str, shown: str) -> None:
    done = run("sql", "SELECT 12080.400000000001 AS sum, 1e-9 AS small" + clause)
    assert shown in done.stdout, done.stderr
    assert "1e-9" in done.stdout


CHANGES = (
    "INSERT INTO run (run) VALUES ('x')",
    "DROP TABLE quic_probe",
    "ALTER TABLE quic_probe DELETE WHERE 1",
    "CREATE TABLE t (a Int8) ENGINE = Memory",
    "CREATE TEMPORARY TABLE t (a Int8)",
    "TRUNCATE TABLE quic_probe",
    "OPTIMIZE TABLE quic_probe FINAL",
    "RENAME TABLE run TO walk",
    "SET readonly = 0",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT file('/etc/passwd')",
    "SELECT `file`('/etc/passwd')",
    "file('/etc/passwd')",
    "SELECT arrayMap(file, ['/etc/passwd'])",
    "SELECT * APPLY file FROM (SELECT '/etc/passwd' AS a)",
    "SELECT * APPLY(x -> file(x)) FROM (SELECT '/etc/passwd' AS a)",
    "EXPLAIN SELECT file('/etc/passwd')",
    "DESCRIBE TABLE file('/etc/passwd', 'CSVWithNames')",
    "DESCRIBE TABLE url('http://127.0.0.1:9/', 'CSVWithNames')",
    "SELECT * FROM eval('SELECT 1') SETTINGS allow_experimental_eval_table_function = 1",
    "SELECT * FROM Python(os)",
    "SELECT * FROM url('http://127.0.0.1:9/', 'LineAsString')",
    "SELECT * FROM executable('id', 'LineAsString', 'a String')",
    "INSERT INTO FUNCTION file('{folder}/out', 'CSV', 'a Int8') VALUES (1)",
    "SELECT 1 INTO OUTFILE '{folder}/out'",
    "SELECT 1 /* */ INTO\n  outfile '{folder}/out' TRUNCATE FORMAT CSV",
    "EXPLAIN SELECT 1 INTO OUTFILE '{folder}/out'",
    "SHOW TABLES INTO OUTFILE '{folder}/out'",
    "SELECT 1; DROP TABLE quic_probe",
    "SYSTEM STOP MERGES",
    "SYSTEM JEMALLOC FLUSH PROFILE",
    "KILL QUERY WHERE 1",
    "SELECT * FROM format(Values, 'x String', '(file(''/etc/passwd''))')",
    "SELECT 1 SETTINGS format_schema = '/etc/passwd'",
    "SET format_template_row = '/etc/passwd'",
    "SELECT * FROM s3('http://127.0.0.1:9/a/b')",
    "SELECT * FROM filesystem('/etc')",
)


@pytest.mark.usefixtures("tables")
def test_nothing_can_be_changed(tmp_path: Path) -> None:
    for query in CHANGES:
        with pytest.raises((UsageError, StoreError)):
            ask.formatted(query.format(folder=tmp_path), "TSV")
        assert not (tmp_path / "out").exists(), query
    with open_store() as store:
        assert store.rows("SELECT count() AS n FROM quic_probe") == [{"n": 0}]


@pytest.mark.usefixtures("tables")
@drawn.parametrize("query", CHANGES, 3)
def test_the_command_refuses_a_change_in_one_sentence(tmp_path: Path, query: str) -> None:
    done = run("sql", query.format(folder=tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("firstflight: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("tables")
def test_words_that_only_look_like_a_write_are_answered() -> None:
    query = "SELECT 'x\nINTO OUTFILE ''y'' file(''z'')' AS `drop table`, 1 AS file, format('{}', 'a') AS a"
    done = run("sql", query, "--format", "JSONEachRow")
    answer = {"drop table": "x\nINTO OUTFILE 'y' file('z')", "file": 1, "a": "a"}
    assert json.loads(done.stdout) == answer, done.stderr


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM tabel1", "tabel1"),
        ("SELECT nope FROM quic_probe", "nope"),
        ("SELEC 1", "Syntax error: failed at position 7"),
        ("SELECT sum(domain) FROM quic_probe", "Illegal type"),
    ],
)
def test_errors_are_one_readable_sentence(query: str, message: str) -> None:
    done = run("sql", query)
    assert done.returncode == 2
    assert done.stderr.startswith("firstflight: the store refused: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "DB::Exception" not in done.stderr
    assert "version" not in done.stderr


@pytest.mark.usefixtures("tables")
def test_an_answer_that_cannot_be_written_is_one_sentence() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [FIRSTFLIGHT, "sql", "SELECT 1"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr == "firstflight: cannot write the answer: No space left on device\n"


@pytest.mark.usefixtures("tables")
def test_unknown_format_is_refused() -> None:
    done = run("sql", "SELECT 1", "--format", "Prety")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Unknown format Prety" in done.stderr


def test_an_empty_store_says_what_to_do(place: Path) -> None:
    for _ in range(2):
        done = run("sql", "SELECT * FROM table1")
        assert done.returncode == 2
        assert f"the store in {place} is empty: run a campaign" in done.stderr
        assert "`firstflight db migrate`" in done.stderr
        assert not place.exists()  # a query creates no store
    assert run("report", "table1").returncode == 2
    assert run("db", "status").returncode == 2


@pytest.mark.parametrize("url", ["chdb:", "sqlite:x", "clickhous://u:hidden@localhost:9000/db", "nonsense"])
def test_invalid_stores_are_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_STORE", url)
    done = run("sql", "SELECT 1")
    assert done.returncode == 2
    assert "write FIRSTFLIGHT_STORE=chdb:PATH or clickhouse://USER:PASSWORD@HOST:PORT/DB" in done.stderr
    assert "hidden" not in done.stderr


def test_paths_that_chdb_would_misread_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path}/store?mode=ro")
    done = run("db", "migrate")
    assert done.returncode == 2
    assert "question mark" in done.stderr
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path}/a store, 100% #1: ü")
    assert run("db", "migrate").returncode == 0
    assert run("sql", "SELECT count() FROM quic_probe", "--format", "TSV").stdout == "0\n"


@pytest.mark.parametrize("command", [("db", "migrate"), ("sql", "SELECT 1"), ("report", "table1")])
@pytest.mark.parametrize("below", ["", "store"])
def test_a_store_that_is_no_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], below: str
) -> None:
    """There can be no store at this path, so the message does not call it empty."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    store = tmp_path / "file" / below
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{store}")
    done = run(*command)
    assert done.returncode == 2
    assert done.stderr == (
        f"firstflight: the store cannot be in {store}: {tmp_path / 'file'} is not a folder; "
        "name another path\n"
    )


def test_a_folder_with_other_files_does_not_become_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("thesis.tex", "notes.txt"):
        (tmp_path / name).write_text("mine", encoding="utf-8")
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path}")
    done = run("db", "migrate")
    assert (done.returncode, done.stderr) == (
        2,
        f"firstflight: the store cannot be in {tmp_path}: the folder holds other files "
        "(notes.txt, thesis.tex); name an empty folder or one that does not exist\n",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "thesis.tex"]


HOLDER = """
import sys, time
from schemas import sql as sql_files
from store import ask, open_store
with open_store():
    print("open", flush=True)
    time.sleep(float(sys.argv[1]))
"""


def holder(seconds: float) -> subprocess.Popen[str]:
    """Run a process that keeps the store open for `seconds`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


@pytest.mark.usefixtures("tables")
def test_others_wait_and_then_name_the_holder() -> None:
    with holder(60) as other:
        began = time.monotonic()
        message = rf"for more than 1 s by process {other.pid} \(-c 60, since 20"
        with pytest.raises(StoreHeld, match=message), open_store(wait_s=1):
            pass
        assert 1 <= time.monotonic() - began < 30, "by default it waits for 30 s"
        other.send_signal(signal.SIGKILL)  # the lock of a dead holder is free
        other.wait()
    with open_store(wait_s=5) as store:
        assert store.rows("SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.usefixtures("tables")
def test_a_short_query_does_not_import_arrow() -> None:
    """The import costs a third of the query's CPU time."""
    script = (
        "import sys\nfrom cli.main import main\ntry:\n    main()\nfinally:\n"
        "    print(sorted({'pyarrow', 'numpy', 'pandas', 'ssl'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "sql", "SELECT 1"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n[]\n", done.stderr


@pytest.mark.usefixtures("tables")
def test_a_command_waits_for_its_turn() -> None:
    with holder(2):
        done = run("sql", "SELECT 1", "--format", "TSV")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


@pytest.mark.usefixtures("tables")
def test_a_foreign_program_that_has_it_open_is_named(place: Path) -> None:
    script = (
        "import sys, time; from chdb.session import Session; s = Session(sys.argv[1]); print(1, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"{script}; time.sleep(60)", str(place)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(UsageError, match="open in another program"), open_store():
            pass
        other.kill()


def test_help_is_fast_to_import() -> None:
    """`--help` and `lab exec` must not load the engine."""
    script = (
        "import cli.main, sys; print([m for m in ('chdb', 'pyarrow', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    for command in ("look.sql", "store.load", "store.db", "look.schema", "look.report"):
        script = f"import cli.{command}, sys; print([m for m in ('chdb', 'pyarrow') if m in sys.modules])"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


def test_a_fragment_takes_words() -> None:
    text = sql_files.with_fragments("${of_run_with calibration, quic_handshake} AND ${of_run}")
    assert "newest_runs.kind IN ('calibration', 'quic_handshake')" in text
    assert "${arguments}" not in text and "newest_run)" in text
    assert sql_files.with_fragments("${no_fragment}") == "${no_fragment}"


def test_a_line_is_repeated_for_each_value_of_a_column() -> None:
    text = sql_files.with_fragments("SELECT\n    ${each download.client} x[{number}] AS {value}\nFROM t")
    assert text == "SELECT\n    x[1] AS curl,\n    x[2] AS quiche,\n    x[3] AS aioquic\nFROM t"
