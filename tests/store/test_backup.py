"""Backup and restore of the store, following the steps in docs/how-to/restore-a-site.md."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import FirstflightError
from orchestration.site import backup as backups
from reports import query
from store import open_store
from store.load import loader
from tests.store.conftest import template as template
from tests.store.rows import many, write
from tests.store.served.serving import serving

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "restore-a-site.md"
LATER = "20261127T055900Z-bbbbbb"
QUERIES = ("iack_share", "share_over_time", "outcomes_over_time")
UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "firstflight-backup-store.service"
SNAPSHOT = "site snapshot --store /var/lib/firstflight-store/store --to /var/lib/firstflight-store/snapshot"
SITE = (sys.executable, "-P", "-m", "cli", "site")
RESTORE = "cp -a BACKUP/store /var/lib/firstflight-store/store"


def contents(url: str) -> dict[str, Any]:
    """Return number and checksum of the rows of every table, and the answers of some queries."""
    with open_store(url) as store:
        tables = store.rows(
            "SELECT name FROM system.tables WHERE database = currentDatabase() "
            "AND engine LIKE '%MergeTree' ORDER BY name"
        )
        counted = {
            row["name"]: store.rows(
                f"SELECT count() AS rows, sum(cityHash64(*)) AS content FROM {row['name']}"
            )
            for row in tables
        }
        answers = {name: query.rows(store, name) for name in QUERIES}
        return {"tables": counted, "queries": answers}


def loaded(paths: list[Path], url: str) -> None:
    results = loader.load_files(paths, url)
    assert all(isinstance(result, loader.Loaded) for result in results), results


def test_a_restored_store_gives_the_same_answers_and_accepts_later_rows(
    template: Path, tmp_path: Path
) -> None:
    assert RESTORE in GUIDE.read_text()
    assert SNAPSHOT in UNIT.read_text()
    folder, snapshot = tmp_path / "store", tmp_path / "store.snapshot"
    shutil.copytree(template, folder, symlinks=True)
    first = write(tmp_path / "one" / "quic_probe.parquet", many(500))
    later = write(tmp_path / "two" / "quic_probe.parquet", many(200, run=LATER))
    with serving(folder) as served:
        loaded([first], served.url)
        before = contents(served.url)
    assert before["tables"]["quic_probe"][0]["rows"] == 500

    # The service stops, its files are hard-linked, and it starts again while the links are copied.
    subprocess.run([*SITE, "snapshot", "--store", folder, "--to", snapshot], check=True)
    (data_file, *_) = snapshot.glob("data/firstflight/quic_probe/*/data.bin")
    assert data_file.stat().st_nlink == 2
    with serving(folder) as served:
        loaded([later], served.url)
        # The same file with more rows replaces them, by a mutation of the part.
        later = write(later, many(300, run=LATER))
        loaded([later], served.url)
        after = contents(served.url)
        assert after["tables"]["quic_probe"][0]["rows"] == 800 and after != before
        to = tmp_path / "backups"
        command: list[str | Path] = [*SITE, "backup", "store", "--store", snapshot, "--to", to]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    rows = sum(table[0]["rows"] for table in before["tables"].values())
    assert done.stdout.endswith(f"restored as a test: {len(before['tables'])} tables, {rows} rows\n")
    (backup,) = backups.backups(to, "store")

    # The disk is lost.
    shutil.rmtree(folder)
    subprocess.run(["cp", "-a", backup / "store", folder], check=True)
    with serving(folder) as served:
        assert contents(served.url) == before
        # Files loaded before the copy count as loaded, and later files do not.
        loaded([first, later], served.url)
        restored_contents = contents(served.url)
    assert restored_contents["queries"] == after["queries"]
    # Tables with load times differ.
    assert restored_contents["tables"]["quic_probe"] == after["tables"]["quic_probe"]


def test_a_damaged_copy_is_no_backup(template: Path, tmp_path: Path) -> None:
    folder, to = tmp_path / "store", tmp_path / "backups"
    shutil.copytree(template, folder, symlinks=True)
    loaded([write(tmp_path / "quic_probe.parquet", many(50))], f"chdb:{folder}")
    with open_store(f"chdb:{folder}") as store:
        (part,) = store.rows("SELECT path FROM system.parts WHERE active AND table = 'quic_probe'")
    damaged = max(Path(part["path"]).glob("*.bin"), key=lambda path: path.stat().st_size)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(FirstflightError, match=r"has damaged parts: quic_probe \(.*no backup was added"):
        backups.make(
            to, "store", lambda place: backups.write_store(place, folder), backups.check_store, keep=1
        )
    assert backups.backups(to, "store") == []
