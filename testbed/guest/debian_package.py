"""Gets one Debian package from this machine's mirror, also from suites missing from its apt sources.

Only apt's ordinary client contacts the mirror. It keeps its state (lists, cache, preferences) in a separate
folder, so the machine's package lists and installation candidates do not change.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from firstflight.errors import FirstflightError, UsageError

SOURCES = Path("/etc/apt")
RELEASE = Path("/etc/os-release")
PRIORITY = 100
"""Pin priority of the extra suite: below the machine's suites (500), so it only adds missing packages."""
ORDINARY = 500
"""Pin priority equal to the machine's suites: the newest version wins."""


@dataclass(frozen=True)
class AptSource:
    """One stanza of sources.list(5); `options` are its other fields, such as Signed-By, as written."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()

    def stanza(self) -> str:
        """Return the source in deb822 form."""
        fields = [("Types", "deb"), ("URIs", " ".join(self.uris)), ("Suites", " ".join(self.suites))]
        if self.components:
            fields.append(("Components", " ".join(self.components)))
        return "".join(f"{name}: {value}\n" for name, value in (*fields, *self.options))


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Yield the enabled binary sources in a `.sources` file (sources.list(5), "deb822-style format")."""
    # Comments are not part of a stanza, even inside a field.
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for block in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line[:1].isspace() and name:
                fields[name] += f"\n{line.rstrip()}"
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        enabled = fields.pop("enabled", "yes").lower() not in (
            "no",
            "false",
            "0",
            "off",
            "without",
            "disable",
        )
        types = fields.pop("types", "").split()
        uris, suites = (tuple(fields.pop(key, "").split()) for key in ("uris", "suites"))
        components = tuple(fields.pop("components", "").split())
        if enabled and "deb" in types and uris and suites:
            yield AptSource(uris, suites, components, tuple((key.title(), fields[key]) for key in fields))


def parse_list(text: str) -> Iterator[AptSource]:
    """Yield the binary sources in a `.list` file (sources.list(5), "one-line-style format")."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)([^#]*)", line)
        if not match:
            continue
        options = []
        for option in (match[1] or "").split():
            key, _, value = option.partition("=")
            # The one-line form has arch= where the other has Architectures: (the same for lang=, target=).
            longer = {"arch": "Architectures", "lang": "Languages", "target": "Targets"}
            options.append((longer.get(key.lower(), key.title()), value.replace(",", " ")))
        yield AptSource((match[2],), (match[3],), tuple(match[4].split()), tuple(options))


def read_sources(folder: Path = SOURCES) -> list[AptSource]:
    """Return the enabled sources below `folder`, in the order of their files."""
    parts = folder / "sources.list.d"
    files = [folder / "sources.list", *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    sources: list[AptSource] = []
    for path in files:
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            sources += parse_deb822(text) if path.suffix == ".sources" else parse_list(text)
    return sources


def codename(release: Path = RELEASE) -> str:
    """Return this Debian release's codename, as `bookworm`; UsageError without one (os-release(5))."""
    text = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    match = re.search(r"^VERSION_CODENAME=[\"']?([a-z]+)[\"']?$", text, re.MULTILINE)
    if not match:
        raise UsageError(f"{release} names no Debian release: set the testbed up on Debian 12 or newer")
    return match[1]


def with_backports(sources: Iterable[AptSource], name: str) -> tuple[list[AptSource], str]:
    """Return the sources of release `name` and its backports, and the name of the backports suite.

    Address, components and keyring come from the machine's own sources, so the mirrors are the same.
    Sources of other archives are skipped. UsageError if no source belongs to this release.
    """
    suite = f"{name}-backports"
    matching = [
        source
        for source in sources
        if any(re.match(rf"{name}(?:[-/]|$)", source_suite) for source_suite in source.suites)
    ]
    main = [source for source in matching if name in source.suites]
    if not main:
        raise UsageError(
            f"no source of apt names the suite {name}: add Debian's main archive to {SOURCES}/sources.list.d"
        )
    further = [replace(source, suites=(suite,)) for source in main]
    return [
        *matching,
        *(source for source in further if all(suite not in source_.suites for source_ in matching)),
    ], suite


class DebianArchive:
    """This machine's mirror, read with separate apt state in `folder`."""

    def __init__(
        self, folder: Path, sources: Iterable[AptSource], suite: str, priority: int = PRIORITY
    ) -> None:
        """Write the configuration; with PRIORITY, `suite` only provides packages that no other suite has."""
        self.folder = folder
        self.configuration = folder / "apt.conf"
        self.failure: FirstflightError | None = None
        for name in ("parts", "lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        stanzas = "\n".join(source.stanza() for source in sources)
        (folder / "parts" / "testbed.sources").write_text(stanzas)
        (folder / "preferences").write_text(f"Package: *\nPin: release n={suite}\nPin-Priority: {priority}\n")
        values = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": str(folder / "parts"),
            "Dir::Etc::preferences": str(folder / "preferences"),
            "Dir::State::lists": str(folder / "lists"),
            "Dir::Cache": str(folder / "cache"),
            "Acquire::Languages": "none",
            # Only this user owns the folder.
            "APT::Sandbox::User": "",
            # This installs no package, so it needs no locks of the machine.
            "Debug::NoLocking": "true",
        }
        self.configuration.write_text("".join(f'{name} "{value}";\n' for name, value in values.items()))

    def update(self) -> None:
        """Read the lists of packages from the mirror.

        Ignores a failure for now: `candidate` raises it only if it does not find the package. Another archive
        may use the release's name for its suite, and have no backports.
        """
        try:
            self._run("apt-get", "update", "-qq", "-o", "APT::Update::Error-Mode=any")
        except FirstflightError as error:
            self.failure = error

    def candidate(self, package: str) -> str:
        """Return the version of `package` that apt would install.

        UsageError if no suite has it; FirstflightError if the lists of suites could not be read.
        """
        match = re.search(r"^ *Candidate: (\S+)", self._run("apt-cache", "policy", package), re.MULTILINE)
        if not match or match[1] == "(none)":
            if self.failure is not None:
                raise self.failure
            raise UsageError(
                f"the mirror of this machine has no package {package}: try a newer Debian release"
            )
        return match[1]

    def download(self, package: str, version: str, folder: Path) -> Path:
        """Download the package's file to the empty `folder`; return its path. apt verifies its hash."""
        self._run("apt-get", "download", "-qq", f"{package}={version}", folder=folder)
        return next(folder.glob(f"{package}_*.deb"))

    def fetch(self, packages: Iterable[str]) -> list[Path]:
        """Return the files of packages and of the dependencies that this machine lacks."""
        options = ("--download-only", "--reinstall", "--no-install-recommends", "--yes", "-qq")
        self._run("apt-get", "install", *options, *packages)
        return sorted((self.folder / "cache/archives").glob("*.deb"))

    def _run(self, *argv: str, folder: Path | None = None) -> str:
        command = [argv[0], "-c", str(self.configuration), *argv[1:]]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
        except FileNotFoundError as error:
            raise UsageError(f"{argv[0]} is not installed: set the testbed up on Debian") from error
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            reason = next((line for line in lines if line.startswith("E:")), "it gave no reason")
            raise FirstflightError(f"`{' '.join(argv)}` failed: {reason.removeprefix('E: ')}")
        return done.stdout


def open_archive(folder: Path, priority: int = PRIORITY) -> DebianArchive:
    """Return the machine's mirror with its release's backports; apt state is in a new folder in `folder`."""
    sources, suite = with_backports(read_sources(), codename())
    return DebianArchive(Path(tempfile.mkdtemp(prefix="apt-", dir=folder)), sources, suite, priority)
