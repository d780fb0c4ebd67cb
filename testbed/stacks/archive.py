"""The source distribution of a Python package that contains the source of a stack in another language.

pip fetches it with its pinned hash ([source.archive] in testbed/stacks/NAME.toml). It does not install it.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from firstflight.errors import FirstflightError
from testbed.guest import compiler


class SourceArchive(BaseModel):
    """A source distribution and its SHA-256; the stack's folder in it and its version."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    package: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    release: str = Field(pattern=r"^[0-9][0-9a-z.]*$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    folder: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$")
    version: str = Field(pattern=r"^[0-9][0-9a-z.]*$")


def fetch(archive: SourceArchive, scratch: Path) -> Path:
    """Fetch and unpack a source distribution in the folder `scratch`; return the stack's source in it.

    FirstflightError if pip cannot fetch it, the hash differs, or it lacks the folder.
    """
    pinned = scratch / "pinned.txt"
    line = f"{archive.package}=={archive.release} --hash=sha256:{archive.sha256}\n"
    pinned.write_text(line, encoding="utf-8")
    # The package needs a newer Python than firstflight; its C sources do not.
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    argv += ["--no-binary", archive.package, "--ignore-requires-python", "--require-hashes"]
    argv += ["--requirement", str(pinned), "--dest", str(scratch / "fetched")]
    compiler.run(argv, scratch, f"it fetches {archive.package}")
    (file,) = (scratch / "fetched").iterdir()
    with tarfile.open(file) as packed:
        packed.extractall(scratch / "unpacked", filter="data")
    (root,) = (scratch / "unpacked").iterdir()
    if not (root / archive.folder).is_dir():
        raise FirstflightError(f"{file.name} has no folder {archive.folder}")
    return root / archive.folder
