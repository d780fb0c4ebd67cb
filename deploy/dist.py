"""Builds `dist/`: what a machine installs instead of a checkout and three toolchains (docs/design/0031).

    make dist

`dist/` contains a wheel of firstflight with its native programs, a wheel of each dependency, requirements
with the hashes of these wheels, static programs, the DAG files, `sbom.cdx.json` and `SHA256SUMS`.
Dependencies that are published only as source are built. FIRSTFLIGHT_SIGNING_KEY=FILE adds `SHA256SUMS.sig`
(`ssh-keygen -Y`); FILE is a private SSH key, or a public key whose private key an agent has. Exit status 0,
or 2 with one sentence.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name, parse_wheel_filename

from deploy import install, sbom
from firstflight.run import provenance
from firstflight.system import files

SIGNING_KEY = "FIRSTFLIGHT_SIGNING_KEY"
NAMESPACE = "firstflight-release"
"""The namespace of signatures: ssh-keygen accepts a signature only in the namespace that it was made for."""

TREE = Path(__file__).resolve().parent.parent
OUT = TREE / "dist"
REQUIREMENTS = ("requirements.txt", "requirements-airflow.txt", "requirements-site.txt")

PIP_WHEEL = (
    *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
    # `make setup` installed what builds packages, and compared its hash.
    *("--no-build-isolation", "--use-pep517"),
)

MEASURES = install.PIPELINE_PROGRAMS
"""Programs in the wheel, each a Cargo package with this name. The lab and benches need a checkout."""

STATIC = ("firstflight-prober", "firstflight-resolve", "firstflight-dissect")
"""Programs that are also linked statically, as single files for people who want only these."""

_GLIBC = re.compile(rb"GLIBC_2\.(\d+)")
_HOST = re.compile(r"^host: (\S+)$", re.MULTILINE)


class DistError(Exception):
    """The build is not possible; one sentence says why and what to do."""


def run(command: Sequence[str | Path], cwd: Path = TREE) -> str:
    """Run a command, and return its standard output. DistError if it is missing or fails."""
    try:
        done = subprocess.run([*map(str, command)], cwd=cwd, stdout=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError as error:
        raise DistError(f"{command[0]} is missing: run `make setup`") from error
    if done.returncode:
        raise DistError(f"`{' '.join(map(str, command))}` failed with status {done.returncode}: see above")
    return done.stdout


def glibc(programs: Iterable[Path]) -> int:
    """Return N of the newest glibc, 2.N, whose symbols these programs name; DistError if they name none."""
    minors = [int(minor) for path in programs for minor in _GLIBC.findall(path.read_bytes())]
    if not minors:
        raise DistError("the programs name no version of glibc: build them for a target with glibc")
    return max(minors)


def native(out: Path, names: Sequence[str], target: str = "", *options: str) -> list[Path]:
    """Build native programs, for the Rust target `target` if any, and copy them to `out` without symbols."""
    for_target = ["--target", target] if target else []
    packages = [word for name in names for word in ("-p", name)]
    optimized = ["--config", 'profile.release.lto="thin"']
    run(["cargo", "build", "--quiet", "--release", "--locked", *optimized, *for_target, *options, *packages])
    out.mkdir(parents=True)
    programs = []
    for name in names:
        programs.append(Path(shutil.copy(TREE / "target" / target / "release" / name, out)))
        run(["strip", "--strip-all", programs[-1]])
    return programs


def static(out: Path) -> None:
    """Build the static programs into `out`, with this machine's C library inside."""
    host = _HOST.search(run(["rustc", "--version", "--verbose"]))
    if host is None:
        raise DistError("`rustc --version --verbose` names no host: install Rust by rustup")
    # With a named target, flags do not reach build scripts and procedural macros, which cannot be static.
    flags = f'target.{host[1]}.rustflags=["-C","target-feature=+crt-static"]'
    native(out, STATIC, host[1], "--config", flags)


def own_wheel(out: Path) -> None:
    """Build firstflight's wheel into `out`, with the native programs and the commit inside."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        for name in filter(None, run(["git", "ls-files", "-z"]).split("\0")):
            if (TREE / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(TREE / name, tree / name)
        package = tree / "firstflight"
        programs = native(package / "programs", MEASURES)
        # As tool_version for a checkout; a wheel's rows name its commit by this file.
        commit = provenance.tool_version().partition("+")[2]
        (package / "COMMIT").write_text(commit + "\n", encoding="utf-8")
        # Any Python, this architecture, and a glibc that has the symbols: pip refuses an older machine.
        tag = f"manylinux_2_{glibc(programs)}_{os.uname().machine}"
        (tree / "setup.cfg").write_text(f"[bdist_wheel]\nplat_name = {tag}\n", encoding="utf-8")
        run([*PIP_WHEEL, "--wheel-dir", out, tree])


def needed_wheels(out: Path) -> None:
    """Put wheels of all pinned dependencies into `out`; what is published only as source is built."""
    requirements = [f"--requirement={TREE / install.HASHES / name}" for name in REQUIREMENTS]
    # The lists name everything, so pip resolves no dependencies.
    run([*PIP_WHEEL, "--require-hashes", "--wheel-dir", out, *requirements])


def applicable(path: Path, environment: Mapping[str, str] | None = None) -> set[NormalizedName]:
    """Return the packages in a file of requirements or hashes that a version of Python needs.

    `environment`: variables of markers that differ from this Python.
    """
    lines = [line.removesuffix(" \\") for line in path.read_text(encoding="utf-8").splitlines()]
    listed = map(Requirement, filter(install.names, lines))
    return {canonicalize_name(r.name) for r in listed if r.marker is None or r.marker.evaluate(environment)}


def requirements_with_hashes(out: Path) -> None:
    """Write, for each file of requirements, what pip installs from `out`, with hashes of these very files.

    The first has firstflight and what a campaign needs; each further one adds its packages.
    """
    lines = {}
    for wheel in sorted(out.glob("*.whl")):
        name, version, *_ = parse_wheel_filename(wheel.name)
        lines[name] = f"{name}=={version} --hash=sha256:{files.sha256_of(wheel)}\n"
    project = canonicalize_name("firstflight")
    needed = {project}
    for file in REQUIREMENTS:
        needed |= applicable(TREE / file)
        missing = needed - lines.keys()
        if missing:
            raise DistError(f"there is no wheel of {', '.join(sorted(missing))}: run `make hashes`")
        (out / file).write_text("".join(lines[name] for name in sorted(needed)), encoding="utf-8")


def checksums(folder: Path) -> str:
    """Return the lines of SHA256SUMS, as sha256sum prints them, for all files below `folder` by path."""
    excluded = ("SHA256SUMS", "SHA256SUMS.sig")
    listed_files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in excluded)
    return "".join(f"{files.sha256_of(path)}  {path.relative_to(folder)}\n" for path in listed_files)


def sign(sums: Path, key: str) -> Path:
    """Sign SHA256SUMS by a key of SSH and return the signature's file. DistError if that fails."""
    if not Path(key).is_file():
        raise DistError(f"there is no key {key!r}: let {SIGNING_KEY} name a key of SSH, or unset it")
    run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", NAMESPACE, sums])
    return sums.with_name(f"{sums.name}.sig")


def build(out: Path) -> None:
    """Build all parts into `out`; an earlier `out` is replaced only when all are complete."""
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    static(part / "static")
    own_wheel(part)
    needed_wheels(part)
    requirements_with_hashes(part)
    shutil.copytree(TREE / "dags", part / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    packages = [word for name in MEASURES for word in ("-p", name)]
    inside = sbom.crates(run(["cargo", "tree", "--locked", *sbom.TREE_FORMAT, *packages]))
    (part / "sbom.cdx.json").write_text(sbom.text(part, inside), encoding="utf-8")
    (part / "SHA256SUMS").write_text(checksums(part), encoding="utf-8")
    key = os.environ.get(SIGNING_KEY)
    if key is not None:
        sign(part / "SHA256SUMS", key)
    shutil.rmtree(out, ignore_errors=True)
    part.rename(out)


def main() -> int:
    """Build `dist/`, and print its path and size."""
    try:
        build(OUT)
    except DistError as error:
        sys.stderr.write(f"dist: {error}\n")
        return 2
    size = sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file())
    sys.stdout.write(f"{OUT}: {len(list(OUT.glob('*.whl')))} wheels, {size // 1_000_000} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
