"""The release that the next commit would be."""

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
    """Return the name of a commit on top of this one, made in a clone in `folder`."""
    git = ["git", "-C", str(folder)]
    run("git", "clone", "--quiet", "--shared", "--no-checkout", str(TREE), str(folder))
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    tree = run(*git, "rev-parse", "HEAD^{tree}").strip()
    made = run(*git, *who, "commit-tree", tree, "-p", "HEAD", "-m", "Nothing but a commit").strip()
    return made[:12]


def release(out: Path, commit: str) -> Path:
    """Copy dist/ to `out`, with a wheel of firstflight that is of `commit`; return `out`."""
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
                assert changed != lines, "the wheel lists no firstflight/COMMIT"
                given = "".join(f"{line}\n" for line in changed).encode()
            made.writestr(part, given)
    older.unlink()
    (out / "SHA256SUMS").write_text(dist.checksums(out), encoding="utf-8")
    return out
