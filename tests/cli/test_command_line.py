"""Common to every command: help with an example, a version, sentences instead of tracebacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli import main
from cli.main import root
from firstflight.system import binaries
from tests.waiting import PATIENCE_S

FIRSTFLIGHT = Path(sys.executable).with_name("firstflight")


def names(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words in a command and the subcommands."""
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from names(below, (*path, name))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FIRSTFLIGHT, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize("words", list(names(root)), ids=" ".join)
def test_help_has_an_example_and_a_version_is_printed(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(option: str) -> str:
        # A native program replaces this one.
        if words and main.native_program(words[0]):
            done = run(*words, option)
            assert (done.returncode, done.stderr) == (0, "")
            return done.stdout
        monkeypatch.setattr(sys, "argv", ["firstflight", *words, option])
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert "Example:" in printed("--help")
    assert printed("--version").startswith("firstflight")


def test_the_help_groups_every_command() -> None:
    """Each command appears once, below the group's title, in lines that fit a terminal."""
    shown = run("--help").stdout
    sections = dict(re.findall(r"^(\w[\w ]*):\n((?:  .*\n)+)", shown, re.MULTILINE))
    for title, group in main.GROUPS.items():
        assert re.findall(r"^  ([a-z-]+) ", sections[title], re.MULTILINE) == list(group)
    assert sum(map(len, main.GROUPS.values())) == len(main.COMMANDS)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", ["spool", "nonsense"])
def test_an_unknown_command_is_wrong_use(name: str) -> None:
    done = run(name, "status")
    assert (done.returncode, done.stdout) == (2, "") and f"'{name}'" in done.stderr


def test_help_of_native_programs_wraps() -> None:
    for program in binaries.find("firstflight-prober").parent.glob("firstflight-*"):
        is_java = program.name == "firstflight-kwik-client"  # without clap
        if program.suffix or is_java or not os.access(program, os.X_OK):
            continue
        helped = subprocess.run(
            [program, "--help"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        assert max(map(len, helped.stdout.splitlines())) <= 110, program.name


def test_so_has_every_native_program() -> None:
    folder = binaries.find("firstflight-prober").parent
    programs = [path for path in folder.glob("firstflight-*") if path.is_file() and os.access(path, os.X_OK)]
    assert len(programs) >= 8
    for program in programs:
        helped, version = (
            subprocess.run([program, option], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
            for option in ("--help", "--version")
        )
        assert "Example:" in helped.stdout and helped.stderr == "", program.name
        assert version.stdout.startswith("firstflight"), program.name


@pytest.mark.parametrize("words", [("schema", "quic_probe", "--format", "json"), ("--help",)])
def test_a_full_disk_at_the_output_is_one_sentence(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [FIRSTFLIGHT, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr == "firstflight: I/O error: No space left on device\n"


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "--nonsense"),
        ("trace", "RUN", "V", "D", "I"),
        ("dissect", "/nonexistent.pcap"),
        ("dissect", "--nonsense"),
        ("probe", "--nonsense"),
        ("probe", "--targets", "/nonexistent.csv"),
        ("resolve", "--names", "/nonexistent", "--resolver", "127.0.0.1"),
        ("handshake", "--nonsense"),
        ("handshake", "--targets", "/nonexistent.csv"),
    ],
)
def test_a_full_disk_at_the_messages_does_not_change_the_status(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        statuses = [
            subprocess.run([FIRSTFLIGHT, *words], stderr=to, stdin=subprocess.DEVNULL, check=False).returncode
            for to in (subprocess.PIPE, full)
        ]
    assert statuses[0] in (2, 3) and statuses[0] == statuses[1]


@pytest.mark.parametrize(
    "words",
    [
        ("schema", "quic_probe", "--format", "json"),
        ("sql", "SELECT 1"),
        ("query",),
        ("query", "outcome_counts"),
        ("runs",),
        ("trace", "RUN", "V", "D", "I"),
        ("report", "table1"),
        ("report", "table3", "."),
        ("report", "handshakes"),
        ("db", "status"),
        ("uploads", "status"),
        ("lab", "truth"),
    ],
    ids=" ".join,
)
def test_unread_output_is_wrong_use(words: tuple[str, ...], tmp_path: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", str(FIRSTFLIGHT), *words]
    done = subprocess.run(
        closed, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stderr == "firstflight: standard output is closed: redirect it to a file\n"
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_command_without_output_runs_with_closed_output(tmp_path: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", str(FIRSTFLIGHT), "db", "migrate"]
    done = subprocess.run(closed, cwd=tmp_path, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0
    assert (tmp_path / "var" / "store").is_dir()


@pytest.mark.parametrize("words", list(names(root)), ids=" ".join)
def test_every_option_has_a_sentence(words: tuple[str, ...]) -> None:
    """Without help, only an option's name is shown."""
    command: click.Command = root
    for name in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert [option.opts for option in options if not option.help] == []
