"""`firstflight report --out`: its output, its exit codes, the same bytes from the same store."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.conftest import Made
from tests.store.serving import serving

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")


def report(made: Made | None, *arguments: str, seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    if made:
        environment["FIRSTFLIGHT_STORE"] = made.url
    return subprocess.run(
        [FIRSTFLIGHT, "report", *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_the_same_store_gives_the_same_bytes(made: Made, tmp_path: Path) -> None:
    for number in ("1", "2"):
        done = report(made, "--out", str(tmp_path / number), "--run", made.run, seed=number)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"{tmp_path / number / 'index.html'}\n"
    first, second = (_page(tmp_path / number / "index.html") for number in ("1", "2"))
    assert first == second == _page(made.path)


def test_a_server_gives_the_same_bytes_as_the_embedded_store(made: Made, tmp_path: Path) -> None:
    environment = {**os.environ}
    with serving(Path(made.url.removeprefix("chdb:"))) as served:
        environment["FIRSTFLIGHT_STORE"] = served.url
        command = [FIRSTFLIGHT, "report", "--out", str(tmp_path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert _page(tmp_path / "index.html") == _page(made.path)


def _page(path: Path) -> bytes:
    """Return its bytes without the version, whose commit may change while tests run."""
    return re.sub(b"Made by firstflight [^ ]*", b"", path.read_bytes())


def test_figure_8_can_be_chosen(made: Made, tmp_path: Path) -> None:
    done = report(made, "--out", str(tmp_path), "--vantage", "sao_paulo", "--day", "2026-11-21")
    assert done.returncode == 0, done.stderr
    assert "São Paulo, 2026-11-21: share of" in (tmp_path / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--out", "{}", "--run", "nope"], "knows no run nope"),
        (
            ["--out", "{}", "--vantage", "mars"],
            "no probe was answered at mars; Figure 8 can show hamburg 2026-11-20",
        ),
        (["--out", "{}", "--day", "2020-01-01"], "no probe was answered on 2020-01-01"),
        (["--run", "x"], "give --out DIR for a page"),
        (["--out", "{}", "table1"], "have no effect before table1"),
        (["--out", "{}", "--day", "yesterday"], "does not match the format"),
    ],
)
def test_wrong_use_is_one_sentence(made: Made, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    done = report(made, *(argument.format(tmp_path / "page") for argument in arguments))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "page").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(made: Made, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = report(made, "--out", str(tmp_path / "file" / "page"))
    assert done.returncode == 3
    assert done.stderr.startswith("firstflight: cannot write ")
    assert done.stderr.count("\n") == 1


def test_a_full_disk_is_one_sentence(made: Made, tmp_path: Path) -> None:
    """On a tmpfs in a mount namespace. The message names no option that this command lacks."""
    full = tmp_path / "full"
    full.mkdir()
    script = 'mount -t tmpfs -o size=64k tmpfs "$1" && exec "$2" report --out "$1/page"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "bash", "-c", script, "bash", str(full), FIRSTFLIGHT],
        env=os.environ | {"FIRSTFLIGHT_STORE": made.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"firstflight: the disk that holds {full}/page/index.html is full; written data is kept: "
        "free space, then repeat the command (a campaign with --resume)\n"
    )


def test_a_store_that_is_not_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'none'}")
    done = report(None, "--out", str(tmp_path / "page"))
    assert done.returncode == 2
    assert "is empty: run a campaign" in done.stderr
