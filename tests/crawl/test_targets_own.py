"""The user's target list: valid names, rejected lines, and the copy in the run."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crawler.lists import own_list
from crawler.lists import stage as targets
from crawler.lists.distinct_targets import Target
from firstflight.errors import InputError
from firstflight.host_names import NotAName, normalise
from tests import memory

from .conftest import MakeRun

MIXED = b"""\xef\xbb\xbf# a list of mine
rank,domain
10,Example.COM

20,B\xc3\xbccher.example.   # IDNA, final dot
plain.example
http://url.example/
x,rank.example
two words
192.0.2.1
30,example.com
\xff\xfe.example
a..b
-x.example
1,2,3
0,zero.example
last.example"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("WWW.Example.com", "www.example.com"),
        ("example.com.", "example.com"),
        ("straße.example", "xn--strae-oqa.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
        ("_dmarc.foo_bar.example", "_dmarc.foo_bar.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("ai", "ai"),
        ("a" * 63 + ".example", "a" * 63 + ".example"),
        ("example." + "a" * 63, "example." + "a" * 63),
        ("a." * 126 + "b", "a." * 126 + "b"),
        ("1.2.3.4a", "1.2.3.4a"),
        ("1.2.3.a4", "1.2.3.a4"),
    ],
)
def test_names(given: str, expected: str) -> None:
    assert normalise(given) == expected


@pytest.mark.parametrize(
    "given",
    (
        *(
            "",
            ".",
            "a..b",
            ".a",
            "*.example.com",
            "a b",
            "-a.example",
            "a-.example",
            "192.0.2.1",
            "::1",
            "[::1]",
        ),
        *("1.2.3", "a" * 64 + ".example", ".".join(["a" * 60] * 5), "https://a.example", "a.example/x"),
        *("a.example:443", "a@b.example", "a\x00b.example", "\u202e.example", "ü" * 64 + ".example"),
    ),
)
def test_invalid_names_are_refused(given: str) -> None:
    with pytest.raises(NotAName) as caught:
        normalise(given)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


def test_every_line_is_used_or_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(MIXED)
    found = own_list.read(path)
    assert found.targets == [
        Target(10, "example.com"),
        Target(20, "xn--bcher-kva.example"),
        Target(3, "plain.example"),
        Target(14, "last.example"),
    ]
    assert [line for line, _ in found.rejected] == [7, 8, 9, 10, 12, 13, 14, 15, 16]
    assert found.duplicates == 1
    assert found.lines == len(found.targets) + len(found.rejected) + found.duplicates
    assert found.list_id == f"file:mine.csv:{hashlib.sha256(MIXED).hexdigest()[:12]}"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("38,hash#x.example", None),
        ("hash#x.example", None),
        ("#x.example", None),
        ("38,x.example #hash", "x.example"),
        ("x.example\t# hash # hash", "x.example"),
    ],
)
def test_a_comment_is_no_part_of_a_word(line: str, name: str | None, tmp_path: Path) -> None:
    """A `#` within a word does not start a comment, because the text before it would be another name."""
    (tmp_path / "l").write_text(f"{line}\nlast.example\n")
    found = own_list.read(tmp_path / "l")
    assert [target.domain for target in found.targets] == [*([name] if name else []), "last.example"]


def test_top_counts_lines_not_successes(tmp_path: Path) -> None:
    (tmp_path / "l").write_text("a.example\nno name\nb.example\nc.example\n")
    found = own_list.read(tmp_path / "l", top=3)
    assert [target.domain for target in found.targets] == ["a.example", "b.example"]


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the target list .*No such file"):
        own_list.read(tmp_path / "none")


def test_stage_writes_the_list_and_reports_rejected_lines(tmp_path: Path, make_run: MakeRun) -> None:
    (tmp_path / "mine.csv").write_bytes(MIXED)
    run = make_run(targets='source = "file"\nfile = "mine.csv"')
    targets.stage(run)
    rows = pq.read_table(run.layout.targets).to_pylist()
    assert [row["domain"] for row in rows] == [
        "example.com",
        "xn--bcher-kva.example",
        "plain.example",
        "last.example",
    ]
    assert {row["list_id"] for row in rows} == {f"file:mine.csv:{hashlib.sha256(MIXED).hexdigest()[:12]}"}
    report = run.report("targets")
    assert report is not None and report.rows_out == 4 and report.rows_in == 14
    assert [rejected.line for rejected in report.rejected] == [7, 8, 9, 10, 12, 13, 14, 15, 16]
    assert run.done("targets")


_STAGE = """
import sys
from pathlib import Path
from crawler.lists import stage
from firstflight.run.run import Run
stage.stage(Run(Path(sys.argv[1])))
"""


def test_a_name_more_takes_little_memory(tmp_path: Path, make_run: MakeRun) -> None:
    peaks = []
    for names in (few := 100_000, many := 500_000):
        (tmp_path / "long.csv").write_text(
            "".join(f"{n},name-{n}.example.org\n" for n in range(1, names + 1))
        )
        run = make_run(targets='source = "file"\nfile = "long.csv"')
        peaks.append(memory.peak_bytes(_STAGE, str(run.path)))
        assert pq.read_metadata(run.layout.targets).num_rows == names
    # Names do not stay in memory. A hash or a numpy index of 8 bytes per name would be allowed, but not a
    # string of 70 bytes.
    assert (peaks[1] - peaks[0]) / (many - few) < 40


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no name$"),
        (b"# nothing\n\n", "holds no name$"),
        (b"\x00\x01\x02\n" * 3, "3 lines were rejected"),
    ],
)
def test_a_list_without_names_is_no_list(
    tmp_path: Path, make_run: MakeRun, content: bytes, says: str
) -> None:
    (tmp_path / "bad").write_bytes(content)
    run = make_run(targets='source = "file"\nfile = "bad"')
    with pytest.raises(InputError, match=says):
        targets.stage(run)
    assert not run.layout.targets.exists()


def test_the_command_names_rejected_lines_without_a_traceback(tmp_path: Path, make_run: MakeRun) -> None:
    (tmp_path / "mine.csv").write_bytes(MIXED)
    run = make_run(targets='source = "file"\nfile = "mine.csv"')
    done = subprocess.run(
        [sys.executable, "-m", "cli", "stage", "targets", "--run", run.id], capture_output=True, text=True
    )
    assert "targets: line 7 rejected: 'http://url.example/' is a URL" in done.stderr
    assert done.stderr.count("rejected") == 9
    assert "Traceback" not in done.stderr
