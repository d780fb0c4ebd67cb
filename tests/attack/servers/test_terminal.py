"""Text from servers and lists is displayed, never interpreted by the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.system import terminal
from firstflight.system.reporting import progress
from reports.tables import text
from reports.tables.columns import PrintedColumn, table_text
from reports.tables.table1 import Table1
from reports.trace import SHOWN, Trace, describe
from tests.waiting import PATIENCE_S

FIRSTFLIGHT = str(Path(sys.executable).with_name("firstflight"))
# Title, cursor, colour, a query that the terminal answers, C1's short forms, a separate line, direction.
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x1b[6n\x9b31m\x9d0;x\x9c\r\nok\x08\x7f\u202egnp.exe\u2066\u2028\u200f"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def harmless(shown: str) -> bool:
    """Return whether a terminal would only display the text; line feeds and tabs are allowed."""
    return OBEYED.search(shown) is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\tb\nc\r\0", r"a\x09b\x0ac\x0d\x00"),
        ("\x7f\x9b\x85", r"\x7f\x9b\x85"),
        ("\u202eevil\u2069", r"\u202eevil\u2069"),
        (b"caf\xe9".decode(errors="surrogateescape"), r"caf\xe9"),
        ("\ud800", r"\ud800"),
        ("Müller, São Paulo, 香港, \u05d0", "Müller, São Paulo, 香港, \u05d0"),
        ("", ""),
    ],
)
def test_control_characters_are_escaped(given: str, shown: str) -> None:
    assert terminal.visible(given) == shown


def test_every_character_of_these_kinds_is_written_out() -> None:
    everything = "".join(map(chr, range(0x3000)))
    assert harmless(terminal.visible(everything)) and "\n" not in terminal.visible(everything)
    letters = "".join(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x600)]))
    assert terminal.visible(letters) == letters


def test_json_is_exact_and_harmless() -> None:
    value = {"detail": EVIL, EVIL: ["Müller", 1, None]}
    written = terminal.as_json(value)
    assert json.loads(written) == value and harmless(written) and "Müller" in written
    spread = terminal.as_json(value, indent=2)
    assert json.loads(spread) == value and harmless(spread) and spread.count("\n") > 5


@pytest.mark.parametrize(
    ("output_format", "to_terminal", "exact"),
    [
        ("PrettyCompact", False, False),
        ("vertical", False, False),
        ("Markdown", False, False),
        ("RawBLOB", False, True),
        ("CSV", False, True),
        ("Parquet", False, True),
        ("TSV", True, False),
        ("Parquet", True, False),
    ],
)
def test_formats_for_people_and_for_programs(output_format: str, to_terminal: bool, exact: bool) -> None:
    content = EVIL.encode() + b"\xff\x9b\n"
    made = terminal.answer(content, output_format, terminal=to_terminal)
    assert (made == content) is exact
    assert exact or harmless(made.decode())


def on_a_terminal(*argv: str, **environment: str) -> str:
    """Return a command's output to a separate terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(argv, stdout=theirs, stderr=theirs, env={**os.environ, **environment})
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the last process with the terminal has ended
            break
        if not piece:
            break
        pieces.append(piece)
    process.wait(timeout=PATIENCE_S)
    os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with its tables."""
    url = f"chdb:{tmp_path_factory.mktemp('store') / 'store'}"
    subprocess.run([FIRSTFLIGHT, "db", "migrate"], env={**os.environ, "FIRSTFLIGHT_STORE": url}, check=True)
    return url


@pytest.mark.parametrize(
    "output_format", ["PrettyCompact", "Vertical", "JSONEachRow", "TSV", "CSV", "RawBLOB"]
)
def test_sql_on_a_terminal(store: str, output_format: str) -> None:
    question = f"SELECT unhex('{EVIL.encode().hex()}') AS detail"
    shown = on_a_terminal(FIRSTFLIGHT, "sql", question, "--format", output_format, FIRSTFLIGHT_STORE=store)
    assert "owned" in shown and harmless(shown)
    if output_format == "JSONEachRow":
        assert json.loads(shown) == {"detail": EVIL}


def test_sql_for_programs_is_exact(store: str) -> None:
    question = f"SELECT unhex('{EVIL.encode().hex()}') AS detail"
    argv = [FIRSTFLIGHT, "sql", question, "--format"]
    environment = {**os.environ, "FIRSTFLIGHT_STORE": store}
    raw = subprocess.run([*argv, "RawBLOB"], env=environment, capture_output=True, check=True)
    assert raw.stdout.decode() == EVIL
    lines = subprocess.run([*argv, "JSONEachRow"], env=environment, capture_output=True, check=True)
    assert json.loads(lines.stdout) == {"detail": EVIL}
    table = subprocess.run([*argv, "PrettyCompact"], env=environment, capture_output=True, check=True)
    assert harmless(table.stdout.decode()) and "owned" in table.stdout.decode()


@pytest.mark.parametrize(
    "clause",
    [
        "FORMAT RowBinary -- all",
        "FORMAT RowBinary /* FORMAT Pretty */",
        "FORMAT RowBinary SETTINGS readonly = 1",
        "SETTINGS readonly = 1 FORMAT RowBinary;",
        "FORMAT /* of */ RowBinary -- FORMAT Vertical",
    ],
)
def test_bytes_for_programs_are_exact_wherever_the_format_is_given(store: str, clause: str) -> None:
    everything = bytes(range(256)) * 2
    argv = [FIRSTFLIGHT, "sql", f"SELECT unhex('{everything.hex()}') {clause}"]
    done = subprocess.run(
        argv, env={**os.environ, "FIRSTFLIGHT_STORE": store}, capture_output=True, check=True
    )
    assert done.stdout == b"\x80\x04" + everything  # the length precedes the value


def test_formats_with_bytes_of_their_own_are_exact(store: str) -> None:
    environment = {**os.environ, "FIRSTFLIGHT_STORE": store}
    for wanted, begin, end in (("Parquet", b"PAR1", b"PAR1"), ("CSV", b'"\xff\x1b\x9b"\n', b"")):
        argv = [FIRSTFLIGHT, "sql", f"SELECT unhex('ff1b9b') AS a FORMAT {wanted} -- Pretty"]
        done = subprocess.run(argv, env=environment, capture_output=True, check=True)
        assert done.stdout.startswith(begin) and done.stdout.endswith(end)
    table = [FIRSTFLIGHT, "sql", "SELECT unhex('1b9b') AS a FORMAT Vertical -- RowBinary"]
    assert harmless(subprocess.run(table, env=environment, capture_output=True, check=True).stdout.decode())


def test_a_message_that_quotes_control_characters(store: str) -> None:
    shown = on_a_terminal(
        FIRSTFLIGHT, "sql", f"SELECT '{EVIL.replace(chr(0), '')}' AS", FIRSTFLIGHT_STORE=store
    )
    assert shown.startswith("firstflight: ") and harmless(shown)
    assert harmless(on_a_terminal(FIRSTFLIGHT, "runs", EVIL))
    assert harmless(on_a_terminal(FIRSTFLIGHT, EVIL))


def test_a_trace_is_one_line_per_packet() -> None:
    row = dict.fromkeys((*SHOWN, "asn"))
    row |= {"detail": EVIL, "cdn": EVIL, "domain": EVIL, "ip": "198.18.0.1", "port": 443}
    row |= {"outcome": "refused", "vantage": "hamburg", "repetition": 1, "run": "R", "sent_at": 0}
    packet = {"time_ns": 0, "from_client": True, "packet_number": 0, "type": EVIL}
    packet |= {"size": 1, "datagram_size": 1}
    found = Trace(row, Path("x"), Path("y"), [{**packet, "frames": f"connection_close {EVIL}"}])
    lines = list(describe(found))
    assert len(lines) == 7 and all(harmless(line) and "\n" not in line for line in lines)
    assert sum("owned" in line for line in lines) == 3


@pytest.mark.parametrize("terminal", [False, True])
def test_tables_of_the_report(terminal: bool) -> None:
    columns = [PrintedColumn("\nCDN", [EVIL, "x"], right=False), PrintedColumn("Domains\n[#]", ["1", "2"])]
    made = table_text(columns, terminal=terminal)
    assert "owned" in made and harmless(re.sub("\x1b\\[[0-9;]*m", "", made) if terminal else made)
    table = text.table1(Table1(EVIL, 1, 1, 100, 1, [], "", ""), terminal=False)
    assert harmless(table)


def test_progress_and_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    progress.print_line(f"targets: line 7 rejected: {EVIL}")
    assert harmless(capsys.readouterr().err)
