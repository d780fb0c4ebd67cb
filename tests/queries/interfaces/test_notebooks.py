"""The notebooks of the documentation run from their first cell to their last, on a store with all tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from store.load import loader
from tests.queries import every_table
from tests.queries.testbed.test_gain import some_rows, written

FOLDER = Path(__file__).parents[3] / "docs" / "tutorials" / "notebooks"
# Notebook -> words in its outputs.
SHOWN = {
    "downloads": ("versus", "median throughput, Mbit/s"),
    "first-answers": ("iack_share_max", "image/png", "instant"),
    "testbed": ("gain_ms", "guest_failed"),
}


@pytest.fixture(scope="module")
def folder(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a store and a run that have rows of every table."""
    made = tmp_path_factory.mktemp("notebooks")
    (made / "runs").mkdir()
    shutil.copytree(template, made / "store", symlinks=True)
    files = [*every_table.write_all(made / "runs"), written(made / "testbed", some_rows())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_RUNS", str(made / "runs"))
        results = loader.load_files(files, f"chdb:{made / 'store'}")
        assert all(isinstance(result, loader.Loaded) for result in results), results
        yield made


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == SHOWN.keys()


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{folder / 'store'}")
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), (
        "the outputs are those of the reader's run"
    )
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    for part in SHOWN[name]:
        assert any(part in str(output) for output in outputs), part
    assert not [output for output in outputs if output.get("name") == "stderr"], outputs
