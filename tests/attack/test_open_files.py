"""A limit of few open files gives one sentence about it, in every command that opens the store."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.system import open_files
from store.errors import from_engine

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")
SENTENCE = "firstflight: too many open files: this process may have {} open at a time; raise the limit "


@pytest.mark.parametrize("limit", [64, 12])
@pytest.mark.parametrize("words", [["sql", "SELECT 1"], ["load", "FILE"], ["stage", "probe", "--run", "x"]])
def test_few_open_files_are_one_sentence(tables: Path, tmp_path: Path, words: list[str], limit: int) -> None:
    assert tables.is_dir()
    (tmp_path / "quic_probe.parquet").write_bytes(b"PAR1")
    given = [str(tmp_path / "quic_probe.parquet") if word == "FILE" else word for word in words]
    done = subprocess.run(
        ["/bin/sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", FIRSTFLIGHT, *given],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(SENTENCE.format(limit)) and done.stderr.count("\n") == 1, done.stderr


def test_a_limit_that_may_be_raised_is_raised(tables: Path) -> None:
    assert tables.is_dir()
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh", FIRSTFLIGHT, "sql", "SELECT 1", "--format=TSV"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ENFILE, "Too many open files in system"),
        RuntimeError("Code: 573. Cannot open epoll descriptor: , errno: 24, strerror: x"),
    ],
)
def test_the_limit_is_found_as_the_cause_of_other_errors(error: Exception) -> None:
    outer = ValueError("could not begin")
    outer.__cause__ = error
    assert open_files.sentence(outer) == open_files.sentence(error) is not None
    assert open_files.sentence(ValueError("errno: 241, another")) is None
    assert open_files.sentence(OSError(errno.ENOENT, "gone")) is None


def test_the_engine_s_message_about_it_is_not_shown() -> None:
    error = from_engine("Code: 76. Cannot open /srv/x.sql: , errno: 24, strerror: Too many open files", "")
    assert "too many open files" in str(error) and "/srv" not in str(error)
