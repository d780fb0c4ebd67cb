"""Publication of the lab's campaign: an export with the same report, and a notebook that reads it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from reports.page import page
from store import open_store
from store.export import package
from store.export.anonymous import Anonymiser
from store.export.opted_out import OptedOut
from store.load import loader
from tests import stores
from tests.end_to_end.conftest import FinishedCampaign
from tests.end_to_end.site import ROOT

# Parts of a page that depend on settings and manifest instead of rows.
ABOUT = {"provenance", "run_answer", "runs"}
# Parts that show names of machines and resolvers, or text from servers.
NAMING = {"coverage", "coverage_answer", "reasons"}


def content(url: str, run: str) -> dict[str, Any]:
    """Return the content of a run's report, by part."""
    with open_store(url) as store:
        made = page.collect(store, run)
    assert made is not None and made.table is not None and made.figure8 is not None
    return {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}


@pytest.mark.parametrize("key", [None, b"k" * 32], ids=["as it is", "anonymised"])
def test_the_report_of_an_export_is_that_of_the_run(
    finished: FinishedCampaign, tmp_path: Path, key: bytes | None
) -> None:
    original = f"chdb:{finished.site.folder / 'store'}"
    anonymiser = Anonymiser(key) if key else None
    with open_store(original) as store:
        export = package.Export(store, tmp_path / "data", OptedOut([]), 0, anonymiser)
        written = export.write([finished.run], "CC-BY-4.0", None, []).files
    assert {"quic_probe", "dns_answer", "target", "as_prefix"} <= {file.kind for file in written}
    url = stores.with_tables(tmp_path / "store")
    (run,) = package.runs_in(tmp_path / "data")
    results = loader.load_run_folder(run, url)
    assert [result for result in results if isinstance(result, loader.RefusedFile)] == []
    theirs, ours = content(original, finished.run), content(url, finished.run)
    differing = {name for name in theirs.keys() - ABOUT if theirs[name] != ours[name]}
    assert differing <= (NAMING if key else set())


def test_a_notebook_reads_the_campaign(finished: FinishedCampaign, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRSTFLIGHT_STORE", "FIRSTFLIGHT_RUNS"):
        monkeypatch.setenv(name, finished.site.environment[name])
    monkeypatch.setenv("IPYTHONDIR", str(finished.site.folder / "ipython"))
    path = ROOT / "docs" / "tutorials" / "notebooks" / "first-answers.ipynb"
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    place = {"metadata": {"path": str(finished.site.folder)}}
    NotebookClient(notebook, timeout=600, resources=place).execute()
    outputs = [str(output) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any(finished.run in cell_output for cell_output in outputs)
    assert any("Cloudflare" in cell_output and "iack_share_max" in cell_output for cell_output in outputs)
