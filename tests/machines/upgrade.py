"""A release of the next commit."""

from __future__ import annotations

import base64
import hashlib
import shutil
import zipfile
from pathlib import Path

from deploy import dist
from tests.machines.machine import TREE, run

COMMIT = "firstflight/COMMIT"


def next_commit(folder: Path) -> str:
    """Create a commit on top of the current one, in a clone in `folder`; return its hash."""
    git = ["git", "-C", str(folder)]
    run("git", "clone", "--quiet", "--shared", "--no-checkout", str(TREE), str(folder))
    author = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    tree = run(*git, "rev-parse", "HEAD^{tree}").strip()
    made = run(*git, *author, "commit-tree", tree, "-p", "HEAD", "-m", "Nothing but a commit").strip()
    return made[:12]


def release(out: Path, commit: str) -> Path:
    """Copy dist/ to `out`, and set the commit in the firstflight wheel to `commit`; return `out`."""
    shutil.copytree(dist.OUT, out)
    (wheel,) = out.glob("firstflight-*.whl")
    older = wheel.rename(wheel.with_suffix(".older"))
    content = f"{commit}\n".encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(older) as source, zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as made:
        for part in source.infolist():
            given = source.read(part)
            if part.filename == COMMIT:
                given = content
            elif part.filename.endswith(".dist-info/RECORD"):
                lines = given.decode().splitlines()
                changed = [
                    f"{COMMIT},sha256={digest},{len(content)}" if line.startswith(f"{COMMIT},") else line
                    for line in lines
                ]
                assert changed != lines, "the wheel does not list firstflight/COMMIT"
                given = "".join(f"{line}\n" for line in changed).encode()
            made.writestr(part, given)
    older.unlink()
    dist.requirements_with_hashes(out)
    (out / "SHA256SUMS").write_text(dist.checksums(out), encoding="utf-8")
    return out
