"""The version of a stack that is here: of a package, a lock file, an installed program."""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from importlib import metadata

import pycurl
from pydantic import BaseModel, ConfigDict

from firstflight.system import binaries


class Version(BaseModel):
    """The source of a stack's version: exactly one field (testbed/stacks/__init__.py)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    python: str | None = None
    cargo: str | None = None
    go: str | None = None
    maven: str | None = None
    debian: str | None = None
    libcurl: str | None = None
    source: str | None = None
    lock: str = "Cargo.lock"

    def text(self) -> str:
        """Return the version that is here, or `unknown`."""
        return self.known() or "unknown"

    def known(self) -> str | None:
        """Return the version that is here, or None."""
        try:
            if self.libcurl:
                return dict(one.partition("/")[::2] for one in pycurl.version.split())[self.libcurl]
            if self.python:
                return metadata.version(self.python)
            if self.cargo:
                return _crates(self.lock)[self.cargo]
            if self.debian:
                return _installed(self.debian)
            if self.source:
                return self.source
            if self.maven:
                return _in_pom(self.maven)
            words = (binaries.repository() / "lab/stacks/quic-go/go.mod").read_text(encoding="utf-8").split()
            return words[words.index(str(self.go)) + 1].removeprefix("v")
        except (OSError, KeyError, ValueError, metadata.PackageNotFoundError):
            return None


@cache
def _crates(lock: str) -> dict[str, str]:
    """Return the crates' versions; read once, because each trial's row has one, and the file is long."""
    text = (binaries.repository() / lock).read_text(encoding="utf-8")
    # Of several versions of a crate the first one counts.
    return {str(one["name"]): str(one["version"]) for one in reversed(tomllib.loads(text)["package"])}


@cache
def built_with(program: str) -> str | None:
    """Return the stack version that a program was built with, from `PROGRAM VERSION (STACK VERSION)`."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=60)
    found = re.fullmatch(r"\S+ \S+ \(\S+ (\S+)\)", done.stdout.strip())
    return found[1] if found else None


@cache
def _installed(package: str) -> str | None:
    """Return the version of a Debian package; None if it is not installed."""
    argv = ["dpkg-query", "--show", "--showformat=${source:Upstream-Version}", package]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout or None


def _in_pom(artifact: str) -> str:
    """Return the version of an artifact that a client in Java names as a property, ARTIFACT.version."""
    text = (binaries.repository() / f"testbed/clients/{artifact}/pom.xml").read_text(encoding="utf-8")
    return text.partition(f"<{artifact}.version>")[2].partition("<")[0]
