"""Wrong use of the commands: one sentence, the exit status in docs/interfaces.md, and no traceback."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import cli.run.campaign
from cli import main
from firstflight import settings
from firstflight.errors import InputError
from firstflight.run.run import Run
from store.load.record_file import RecordFile
from tests import minimal

RUN = "RUN"  # in the tables below: the ID of the existing run
Outcome = tuple[int, str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A new run; the working directory has a junk file, an empty file and a folder."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'store'}")
    monkeypatch.delenv(main.TRACEBACK_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk").write_bytes(bytes(range(128, 256)))
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    in_force, text = settings.load(minimal.write(tmp_path))
    return Run.create(in_force, text)


def end_of(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Outcome:
    """Return exit status and standard error of `firstflight ARGUMENTS`."""
    monkeypatch.setattr(sys, "argv", ["firstflight", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "No such command 'nosuch' (see firstflight --help)"),
        (["quer"], "No such command 'quer'. Did you mean 'query'? (see firstflight --help)"),
        (["schema", "quic_prob"], "there is no record kind 'quic_prob'; did you mean quic_probe or"),
        (["query", "iack_shar"], "there is no query 'iack_shar'; did you mean iack_share or"),
        (["query", "iack_share", "--param", "rn=newest"], "; did you mean run?"),
        (["query", "iack_share", "--search", "x"], "--search lists queries: leave out NAME"),
        (["report", "handshakes", "--part", "stack"], "'locations'; did you mean stacks? (see firstflight"),
        (
            ["campaign", "run", "--config", "c.toml", "--set", "probe.rat=1"],
            "no such setting; did you mean rate?",
        ),
        (
            ["campaign", "run", "--config", "c.toml", "--set", "prob.rate=1"],
            "no such setting; did you mean probe?",
        ),
        (["sql"], "give a query, or `-` to read it from standard input"),
        (["stage"], "(see firstflight stage --help)"),
        (["schema", "quic_probe", "--format", "xml"], "'xml' is not one of"),
        (["runs", "\udcff"], "the argument b'\\xff' is not UTF-8"),
        (["sql", "SELECT '\udcff'"], "is not UTF-8"),
        (["runs", ""], "there is no run '' in"),
        (["runs", "../elsewhere"], "there is no run ../elsewhere;"),
        (["campaign", "run", "--config", "junk"], "junk is not a settings file: it is not UTF-8 text"),
        (["watch", "--config", "c.toml", "--period", "nan", "--dry-run"], "watch.period_s: "),
        (["watch", "--config", "c.toml", "--period", "1e18", "--dry-run"], "watch.period_s: "),
        (["watch", "--config", "c.toml", "--periods", "99999999999", "--dry-run"], "'--periods'"),
        (["stage", "load", "--run", RUN, "--vantage", "here"], "together, or neither"),
        (["stage", "load", "--run", RUN, "--repetition", "1"], "together, or neither"),
        (["stage", "load", "--run", RUN, "--vantage", "x", "--repetition", "1"], "is called x"),
        (
            [
                "stage",
                "watch",
                "--run",
                RUN,
                "--vantage",
                "here",
                "--repetition",
                "1",
                "--start",
                "0001-01-01",
            ],
            "the year must be between",
        ),
        (["uploads", "clean", "--keep-days", "1e30"], "'--keep-days'"),
        (["report", "table1", "--seed", "-1"], "'--seed'"),
        (["report", "table1", "--resamples", "99999999999"], "'--resamples'"),
        (["report", "handshakes", "--part", "junk"], "'--part'"),
        (["lab", "truth", "--behaviour", "junk"], "the behaviour file junk is not UTF-8 text"),
        (["lab", "up", "--state", "folder", "--behaviour", "empty"], "the behaviour file empty is wrong"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_2(
    arguments: list[str],
    message: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [run.id if word == RUN else word for word in arguments]
    status, shown = end_of(given, monkeypatch, capsys)
    assert status == 2
    assert shown.startswith("firstflight: ") and shown.count("\n") == 1
    assert message in shown
    assert not (run.path / "here").exists(), "the command must have no effect"


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("state", "message"),
    [("{}", "is broken ('hosts'): remove it"), ("[1]", "remove it"), ("no JSON", "remove it")],
)
def test_a_broken_record_of_a_lab_is_one_sentence(
    state: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder/lab.json").write_text(state)
    status, shown = end_of(["lab", "status", "--state", "folder"], monkeypatch, capsys)
    assert (status, shown.count("\n")) == (1, 1)
    assert message in shown
    status, shown = end_of(["lab", "status", "--state", "junk"], monkeypatch, capsys)
    assert (status, shown.count("\n")) == (1, 1)
    assert "Not a directory; name another folder by --state" in shown


@pytest.mark.usefixtures("run")
def test_a_query_that_is_no_text_is_unreadable_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SELECT \xff")))
    status, shown = end_of(["sql", "-"], monkeypatch, capsys)
    assert (status, shown) == (
        3,
        "firstflight: standard input is not UTF-8 at byte 7: give the query as UTF-8 text\n",
    )


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("arguments", "noun"),
    [(["sql", "-"], "query"), (["probe", "--targets=-", "--contact=me@example.org"], "list")],
)
def test_a_closed_standard_input_is_one_sentence(
    arguments: list[str], noun: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    status, shown = end_of(arguments, monkeypatch, capsys)
    assert (status, shown.count("\n")) == (2, 1)
    assert f"standard input is closed: give the {noun} there, or" in shown


@pytest.mark.usefixtures("run")
def test_a_fault_of_ours_is_one_sentence_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_text: object) -> str:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(cli.run.campaign, "_toml", broken)
    arguments = ["campaign", "run", "--config", "c.toml", "--top", "3", "--dry-run"]
    status, shown = end_of(arguments, monkeypatch, capsys)
    assert (status, shown.count("\n")) == (1, 1)
    assert "ZeroDivisionError: division by zero (tests/cli/test_bad_use.py, line " in shown
    monkeypatch.setenv(main.TRACEBACK_VARIABLE, "1")
    monkeypatch.setattr(sys, "argv", ["firstflight", *arguments])
    with pytest.raises(ZeroDivisionError):
        main.main()


def test_a_package_that_the_demo_leaves_out_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without(_name: str) -> object:
        raise ModuleNotFoundError("No module named 'scrapy.http'", name="scrapy.http")

    monkeypatch.setattr("importlib.import_module", without)
    assert end_of(["crawl", "--help"], monkeypatch, capsys) == (
        1,
        "firstflight: the Python package 'scrapy' is missing: run `make setup`\n",
    )


def test_a_record_file_that_cannot_be_opened_is_not_called_broken(run: Run) -> None:
    with pytest.raises(InputError, match=r"^cannot read .*gone.parquet: No such file or directory$"):
        RecordFile(run.path / "gone.parquet")


def test_an_empty_variable_is_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", "")
    monkeypatch.chdir(run.path.parent)
    assert Run.all() == [], "runs are not searched in the working directory itself"
