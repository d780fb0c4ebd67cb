"""Installs Python packages and builds the programs in a profile of deploy/setup.sh, side by side.

    python3 -m deploy.install PROFILE
    python3 -m deploy.install debian COUNT COMMAND...

The second form runs apt-get, which sets up COUNT packages. Standard library only. Each step does only what is
missing. Exit status 0, or 2 with one sentence. pip installs uv, and uv installs the other packages in a fifth
of pip's CPU time. If uv fails, for example because only pip's settings name the package index, pip does it.
Both compare every file that they download with deploy/hashes (`make hashes` writes this folder).
"""

from __future__ import annotations

import hashlib
import platform
import re
import shlex
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy import progress
from deploy.progress import Job

TREE = Path(__file__).resolve().parent.parent
VENV = TREE / ".venv"
SUPERSET_VENV = TREE / ".venv-superset"
PROGRAMS = TREE / "target" / "release"

DEMO_NAMES = "requirements-demo.txt"
CAMPAIGN = "requirements.txt"
SITE = (CAMPAIGN, "requirements-airflow.txt", "requirements-site.txt")
TEST = (*SITE, "requirements-deploy.txt", "requirements-docs.txt", "requirements-dev.txt")
SUPERSET = "requirements-superset.txt"
BUILD = "requirements-build.txt"
INSTALLER = "requirements-installer.txt"
HASHES = Path("deploy", "hashes")
"""This folder of the tree has, for each file of requirements, the packages with the hashes of their files."""


def _programs(*globs: str) -> tuple[str, ...]:
    """Return the names of the Cargo packages in these folders that are programs."""
    crates = [crate for glob in globs for crate in sorted(TREE.glob(glob))]
    manifests = [crate / "Cargo.toml" for crate in crates if (crate / "src" / "main.rs").is_file()]
    return tuple(tomllib.loads(path.read_text(encoding="utf-8"))["package"]["name"] for path in manifests)


PIPELINE_PROGRAMS = _programs("crawler/native", "scanner/native/*", "downloader/native", "dissector/native")
"""Cargo packages of the programs that measure, each of the same name."""
LAB_PROGRAMS = _programs("lab/link", "lab/stacks/*")
DEMO_PROGRAMS = (
    *("firstflight-prober", "firstflight-resolve", "firstflight-handshake", "firstflight-rib"),
    "firstflight-dissect",
    *LAB_PROGRAMS,
)
"""Cargo packages that `make demo` runs: the stages of lab/campaign.toml, and the lab's link and servers."""
MEASURES = (*PIPELINE_PROGRAMS, *LAB_PROGRAMS)
BENCHES = ("firstflight-responder", "firstflight-captures", "firstflight-kernel-alone")

LAB_GO = {"firstflight-quicgo": ".", "firstflight-files": "./files"}
TESTBED_GO = {**LAB_GO, "firstflight-quicgo-client": "./client", "firstflight-xnet-client": "./xnet"}
LAB_MODULE = TREE / "lab" / "stacks" / "quic-go"
CHECK_MODULE = TREE / "deploy" / "grafana" / "check"
CHECK_GO = {"firstflight-grafana-check": "."}


@dataclass(frozen=True)
class Profile:
    """What a profile needs: files of Python packages, options of `cargo build`, Go programs by package."""

    requirements: tuple[str, ...]
    cargo: tuple[str, ...]
    go: dict[str, str]
    check: bool = False  # the Go program that checks Grafana's dashboards


def _packages(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("-p", name))


_ALL = ("--workspace",)
_NO_BENCHES = (*_ALL, *(word for name in BENCHES for word in ("--exclude", name)))
PROFILES = {
    "demo": Profile((DEMO_NAMES,), _packages(DEMO_PROGRAMS), LAB_GO),
    "downloads": Profile((CAMPAIGN,), _packages(MEASURES), LAB_GO),
    "docs": Profile((CAMPAIGN, "requirements-docs.txt"), _packages(MEASURES), LAB_GO),
    "site": Profile(SITE, _packages(MEASURES), LAB_GO),
    "superset": Profile((CAMPAIGN,), _packages(MEASURES), LAB_GO),
    "testbed": Profile((CAMPAIGN,), _NO_BENCHES, TESTBED_GO),
    "test": Profile(TEST, _ALL, TESTBED_GO, check=True),
    "machines": Profile(TEST, _ALL, TESTBED_GO, check=True),
}


def names(text: str) -> list[str]:
    """Return the names of the packages that a file of requirements lists."""
    return re.findall(r"^([A-Za-z0-9][\w.-]*)", text, re.MULTILINE)


def _stamp_text(files: Sequence[str]) -> str:
    """Return a stamp's text: the version of Python, and checksums of the files that list the packages."""
    read = [HASHES / name for name in (BUILD, INSTALLER, *files)] + [Path("pyproject.toml")]
    sums = [hashlib.sha256((TREE / path).read_bytes()).hexdigest() for path in read]
    return " ".join([platform.python_version(), *sums])


def _stamps(requirements: tuple[str, ...]) -> dict[Path, str]:
    """Return path -> text of the stamps that mark these files of requirements as installed."""
    stamps = {VENV / f".{DEMO_NAMES}": _stamp_text((DEMO_NAMES,))}
    if requirements != (DEMO_NAMES,):
        for count, name in enumerate(requirements, 1):
            stamps[VENV / f".{name}"] = _stamp_text(requirements[:count])
    return stamps


def _are_written(stamps: dict[Path, str]) -> bool:
    return all(path.is_file() and path.read_text(encoding="utf-8") == text for path, text in stamps.items())


def _with_hashes(files: Sequence[str]) -> tuple[str, ...]:
    """Return options of pip and uv: the packages of these files of requirements, only with known hashes."""
    return ("--require-hashes", *(f"--requirement={HASHES / name}" for name in files))


def python_job(name: str, venv: Path, files: Sequence[str], *more: Sequence[str]) -> Job:
    """Return the job that makes an environment with the packages in `files`, then what `more` installs."""
    pip = (str(venv / "bin" / "pip"), "install", "--disable-pip-version-check", "--progress-bar=off")
    commands: list[Sequence[str]] = [
        (*pip, *_with_hashes((BUILD, INSTALLER))),
        *(_by_uv_or_pip(venv, pip, options) for options in (_with_hashes(files), *more)),
    ]
    if not (venv / "bin" / "python").exists():
        commands.insert(0, (sys.executable, "-m", "venv", str(venv)))
    count = sum(len(names((TREE / name).read_text(encoding="utf-8"))) for name in files)
    read = progress.counting(
        r"^(?:Collecting|Requirement already satisfied:| \+) ([\w.-]+)",
        r"^(Installing) collected packages|^ *((?:Downloading|Building) [\w.-]+)",
    )
    return Job(name, commands, read, count)


def _by_uv_or_pip(venv: Path, pip: Sequence[str], options: Sequence[str]) -> Sequence[str]:
    """Return the command that installs with uv, or else with pip."""
    uv = (str(venv / "bin" / "uv"), "pip", "install", "--native-tls", f"--python={venv / 'bin' / 'python'}")
    # Without the first option, they download tools that build packages from source, and compare no hashes.
    same = ("--no-build-isolation", *options)
    return ("sh", "-c", f"{shlex.join((*uv, *same))} || exec {shlex.join((*pip, '--use-pep517', *same))}")


def python_jobs(requirements: tuple[str, ...]) -> tuple[list[Job], dict[Path, str]]:
    """Return the jobs that install these files' packages, and the stamps to write then; empty if done."""
    stamps = _stamps(requirements)
    if _are_written(stamps) and (VENV / "bin" / "firstflight").exists():
        return [], {}
    own_arguments = ("--no-deps", "--editable", ".")
    return [python_job("Python packages", VENV, requirements, own_arguments)], stamps


def superset_jobs() -> tuple[list[Job], dict[Path, str]]:
    """As `python_jobs`, for Superset: its dependencies are not ours, so it has a separate environment."""
    stamps = {SUPERSET_VENV / f".{SUPERSET}": _stamp_text((SUPERSET,))}
    if _are_written(stamps):
        return [], {}
    return [python_job("packages of Superset", SUPERSET_VENV, (SUPERSET,))], stamps


def cargo_job(profile: Profile) -> Job:
    """Return the job that builds a profile's Rust programs."""
    command = ("cargo", "build", "--release", "--locked", *profile.cargo)
    return Job(
        "Rust programs",
        [command],
        progress.read_cargo,
        time_shares=progress.CARGO_TIME_SHARES,
        own_bar=True,
        bar=progress.CARGO_BAR,
    )


def go_job(name: str, module: Path, programs: dict[str, str]) -> Job:
    """Return the job that builds Go programs; it counts the packages that must be compiled."""
    stale = (
        "go",
        "list",
        "-C",
        str(module),
        "-trimpath",
        "-deps",
        "-f",
        "{{if .Stale}}stale {{.ImportPath}}{{end}}",
    )
    build = ("go", "build", "-C", str(module), "-trimpath", "-v", "-o")
    commands = [(*build, str(PROGRAMS / program), package) for program, package in programs.items()]
    return Job(name, [(*stale, *programs.values()), *commands], _read_go)


def _read_go(line: str, job: Job) -> None:
    """Read `go list` above, then the names that `go build -v` prints."""
    if line.startswith("stale "):
        job.total += 1
    elif re.fullmatch(r"[\w./-]+", line):
        job.done, job.now = min(job.done + 1, job.total), line
    elif line.startswith("go: "):
        job.now = line.removeprefix("go: ")


def debian_job(count: int, command: Sequence[str]) -> Job:
    """Return the job that reads package lists or installs `count` Debian packages by apt-get."""
    read = progress.counting(r"^Setting up ([^\s:]+)", r"^(?:Get|Hit):\d+ (.*)|^(Unpacking \S+)")
    return Job("Debian packages", [command], read, count)


def run(jobs: Sequence[Job]) -> int:
    """Run jobs side by side; return the exit status, after a failed command's output."""
    try:
        progress.run(jobs)
    except progress.JobError as error:
        sys.stderr.write("".join(f"{line}\n" for line in error.output))
        progress.say(f"{error}: see above, and run this again.")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def install(profile_name: str) -> int:
    """Install and build what a profile lacks; return the exit status."""
    profile = PROFILES[profile_name]
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    jobs, stamps = python_jobs(profile.requirements)
    if profile_name == "superset":
        more, more_stamps = superset_jobs()
        jobs, stamps = jobs + more, stamps | more_stamps
    jobs += [cargo_job(profile), go_job("Go packages", LAB_MODULE, profile.go)]
    if profile.check:
        jobs.append(go_job("Go packages that check dashboards", CHECK_MODULE, CHECK_GO))
    status = run(jobs)
    if status == 0:
        for stamp, text in stamps.items():
            stamp.write_text(text, encoding="utf-8")
    return status


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit status."""
    if arguments[0] == "debian":
        return run([debian_job(int(arguments[1]), arguments[2:])])
    return install(arguments[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
