"""A stack's version on this machine: from a package, a lock file, or an installed program."""

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
    """The source for a stack's version: exactly one field (testbed/stacks/__init__.py)."""

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
        """Return the version on this machine, or `unknown`."""
        return self.known() or "unknown"

    def known(self) -> str | None:
        """Return the version on this machine, or `None`."""
        try:
            if self.libcurl:
                return dict(part.partition("/")[::2] for part in pycurl.version.split())[self.libcurl]
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
    """Return the crates' versions. Cached, because each trial's row has one, and the file is long."""
    text = (binaries.repository() / lock).read_text(encoding="utf-8")
    # If a crate has several versions, the first one counts.
    return {str(crate["name"]): str(crate["version"]) for crate in reversed(tomllib.loads(text)["package"])}


@cache
def built_with(program: str) -> str | None:
    """Return the stack version that a program was built with, from `PROGRAM VERSION (STACK VERSION)`."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=60)
    match = re.fullmatch(r"\S+ \S+ \(\S+ (\S+)\)", done.stdout.strip())
    return match[1] if match else None


@cache
def _installed(package: str) -> str | None:
    """Return a Debian package's version; `None` if it is not installed."""
    argv = ["dpkg-query", "--show", "--showformat=${source:Upstream-Version}", package]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout or None


def _in_pom(artifact: str) -> str:
    """Return the version of an artifact from the property ARTIFACT.version in a Java client's pom.xml."""
    text = (binaries.repository() / f"testbed/clients/{artifact}/pom.xml").read_text(encoding="utf-8")
    return text.partition(f"<{artifact}.version>")[2].partition("<")[0]
