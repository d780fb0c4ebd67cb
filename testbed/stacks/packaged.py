"""Programs from Debian packages, unpacked into the user's cache folder and not installed.

For stacks with a client and server in Debian ([packaged] in testbed/stacks/NAME.toml). This unpacks the
newest version in the release and its backports, and keeps it until its folder is removed.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from firstflight.errors import FirstflightError
from firstflight.system.files import explain_os_errors
from firstflight.system.lock import locked
from testbed.guest import compiler, debian_package
from testbed.guest.cache_folder import cache

_VERSION = "unpacked-from"
_Package = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
_PATH = r"^usr/s?bin/[A-Za-z0-9._+-]+$"


class Packaged(BaseModel):
    """A stack's programs in `packages`. The first package gives the stack's version.

    `client` and `server` are paths in the packages. In their argument lists, `request` and `serve`, {program}
    is this path. testbed/stacks/own_program.py and testbed/stacks/own_server.py define the other names.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    packages: tuple[_Package, ...] = Field(min_length=1)
    client: str = Field(pattern=_PATH)
    request: tuple[str, ...] = Field(min_length=1)
    server: str = Field(pattern=_PATH)
    serve: tuple[str, ...] = Field(min_length=1)

    def folder(self, name: str) -> Path:
        """Return the folder for the unpacked packages of the stack NAME."""
        return cache() / f"packaged-{name}"

    def version(self, name: str) -> str | None:
        """Return the unpacked version; `None` if it is not unpacked."""
        try:
            return (self.folder(name) / _VERSION).read_text(encoding="utf-8").strip()
        except OSError:
            return None

    def client_argv(self, name: str) -> list[str]:
        """Return `request` with the program and the path of the unpacked libraries."""
        return self._argv(name, self.client, self.request)

    def server_argv(self, name: str) -> list[str]:
        """Return `serve` in the same way."""
        return self._argv(name, self.server, self.serve)

    def _argv(self, name: str, program: str, arguments: tuple[str, ...]) -> list[str]:
        folder = self.folder(name)
        libraries = ":".join(map(str, sorted(folder.glob("usr/lib/*-linux-gnu*"))))
        started = ["env", f"LD_LIBRARY_PATH={libraries}", str(folder / program)]
        return [
            word for argument in arguments for word in (started if argument == "{program}" else [argument])
        ]


def unpack(name: str, stack: Packaged) -> Path:
    """Unpack a stack's packages if needed, with the dependencies that this machine lacks.

    Returns their folder. UsageError if no source of apt has a package; FirstflightError if the mirror does
    not answer, or a package lacks the program; OutputError if the folder cannot be written.
    """
    folder = stack.folder(name)
    with explain_os_errors(folder):
        cache().mkdir(parents=True, exist_ok=True)
    with (
        locked(folder.with_name(f"{folder.name}.lock"), f"the testbed's folder for {name}", wait_s=600),
        explain_os_errors(folder),
    ):
        if stack.version(name) is None:
            # We hold the lock, so any remaining files come from killed runs.
            scratches = f"unpack-{name}."
            for outdated in (*cache().glob(f"{scratches}*"), folder):
                shutil.rmtree(outdated, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=scratches, dir=cache()) as scratch:
                _unpack(stack, Path(scratch)).rename(folder)
    return folder


def _unpack(stack: Packaged, scratch: Path) -> Path:
    archive = debian_package.open_archive(scratch, debian_package.ORDINARY)
    archive.update()
    # If a suite is missing, an older version would look like the newest one and be kept.
    if archive.failure is not None:
        raise archive.failure
    versions = [archive.candidate(package) for package in stack.packages]
    root = scratch / "root"
    root.mkdir()
    for package in archive.fetch(stack.packages):
        compiler.run(["dpkg-deb", "--extract", str(package), str(root)], scratch, "packages need it")
    for program in (stack.client, stack.server):
        if not (root / program).is_file():
            raise FirstflightError(f"no package of {', '.join(stack.packages)} {versions[0]} has {program}")
    # The upstream version, without Debian's additions.
    upstream = re.sub(r"^\d+:|-[^-]*$|[+~].*$", "", versions[0])
    (root / _VERSION).write_text(f"{upstream}\n", encoding="utf-8")
    return root
