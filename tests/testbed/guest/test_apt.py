"""The sources of apt are read in both formats, and determine the additional suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstflight.errors import FirstflightError, UsageError
from testbed.guest import debian_package
from testbed.guest.debian_package import AptSource, DebianArchive

KEYRING = ("Signed-By", "/k.gpg")
MIRROR = AptSource(("http://mirror.test/debian",), ("bookworm",), ("main",), (KEYRING,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# a comment\nTypes: deb deb-src\n# another\nURIs: http://mirror.test/debian\n"
            "suites: bookworm bookworm-updates\nComponents: main contrib\nSigned-By: /k.gpg\n",
            [AptSource(MIRROR.uris, ("bookworm", "bookworm-updates"), ("main", "contrib"), (KEYRING,))],
        ),
        # A key inside the stanza is kept as written.
        (
            "Types: deb\nURIs: http://a.test\nSuites: x/\nSigned-By:\n -----BEGIN\n .\n key\n",
            [AptSource(("http://a.test",), ("x/",), (), (("Signed-By", "\n -----BEGIN\n .\n key"),))],
        ),
        ("Enabled: no\nTypes: deb\nURIs: http://a.test\nSuites: x\n", []),
        ("Types: deb-src\nURIs: http://a.test\nSuites: x\n", []),
        ("Types: deb\nURIs: http://a.test\n", []),
        (
            "Types: deb\nURIs: http://a.test\nSuites: x\n \t\nTypes: deb\nURIs: http://b.test\nSuites: y\n",
            [AptSource(("http://a.test",), ("x",), ()), AptSource(("http://b.test",), ("y",), ())],
        ),
        ("", []),
    ],
)
def test_the_stanza_form(text: str, expected: list[AptSource]) -> None:
    assert list(debian_package.parse_deb822(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "deb http://mirror.test/debian bookworm main contrib # fast",
            [(("bookworm",), ("main", "contrib"), ())],
        ),
        (
            "deb [arch=amd64,i386 signed-by=/k.gpg] http://mirror.test/debian bookworm main",
            [(("bookworm",), ("main",), (("Architectures", "amd64 i386"), KEYRING))],
        ),
        (
            "# deb http://mirror.test/debian bookworm main\ndeb-src http://mirror.test/debian bookworm main",
            [],
        ),
        ("deb http://mirror.test/debian ./", [(("./",), (), ())]),
        ("deb http://mirror.test/debian", []),
    ],
)
def test_the_line_form(text: str, expected: list[tuple[object, ...]]) -> None:
    found = list(debian_package.parse_list(text))
    assert [(source.suites, source.components, source.options) for source in found] == expected
    assert {source.uris for source in found} <= {MIRROR.uris}


def test_both_forms_are_read_from_a_folder(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://a.test x main\n")
    (parts / "b.list").write_text("deb http://b.test x main\n")
    (parts / "c.sources").write_text(MIRROR.stanza())
    (parts / "d.sources.save").write_text("Types: deb\nURIs: http://d.test\nSuites: x\n")
    found = debian_package.read_sources(tmp_path)
    assert [source.uris[0] for source in found] == ["http://a.test", "http://b.test", MIRROR.uris[0]]
    assert found[2] == MIRROR


def test_the_further_suite_is_from_the_same_mirror_with_its_keyring() -> None:
    security = AptSource(("http://mirror.test/security",), ("bookworm-security",), ("main",), (KEYRING,))
    foreign = AptSource(("http://other.test",), ("stable",), ("main",))
    found, suite = debian_package.with_backports([MIRROR, security, foreign], "bookworm")
    assert suite == "bookworm-backports"
    further = AptSource(MIRROR.uris, (suite,), ("main",), (KEYRING,))
    assert found == [MIRROR, security, further]
    # A machine that names it already needs no second one.
    assert debian_package.with_backports([MIRROR, further], "bookworm")[0] == [MIRROR, further]


def test_without_a_source_of_the_release_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"^no source of apt names the suite bookworm: add "):
        debian_package.with_backports(
            [AptSource(("http://a.test",), ("bookworm-security", "bookworms"), ("main",))], "bookworm"
        )


@pytest.mark.parametrize("line", ["VERSION_CODENAME=bookworm", 'VERSION_CODENAME="bookworm"'])
def test_the_name_of_the_release(tmp_path: Path, line: str) -> None:
    release = tmp_path / "os-release"
    with pytest.raises(UsageError, match="names no Debian release"):
        debian_package.codename(release)
    release.write_text(f'NAME="Debian"\n{line}\n')
    assert debian_package.codename(release) == "bookworm"
    release.write_text("NAME=Other\nVERSION_CODENAME=\n")
    with pytest.raises(UsageError, match="names no Debian release"):
        debian_package.codename(release)


def repository(folder: Path, packages: dict[str, str]) -> AptSource:
    """Return a source that is a folder with these packages (name -> version), by apt's own rules."""
    folder.mkdir()
    stanzas = [
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nFilename: ./{name}.deb\nSize: 1\n"
        for name, version in packages.items()
    ]
    (folder / "Packages").write_text("\n".join(stanzas))
    return AptSource((f"file:{folder}",), ("./",), (), (("Trusted", "yes"),))


def test_the_real_apt_reads_only_these_sources(tmp_path: Path) -> None:
    source = repository(tmp_path / "own", {"linux-source-test": "6.12.1-1"})
    (tmp_path / "state").mkdir()
    archive = DebianArchive(tmp_path / "state", [source], "bookworm-backports")
    archive.update()
    assert archive.candidate("linux-source-test") == "6.12.1-1"
    # This machine's own sources have bash-static, but apt does not read them.
    with pytest.raises(UsageError, match=r"^the mirror of this machine has no package bash-static: "):
        archive.candidate("bash-static")


def test_a_mirror_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = AptSource((f"file:{tmp_path}/none",), ("./",), (), (("Trusted", "yes"),))
    readable = repository(tmp_path / "own", {"linux-source-test": "1"})
    archives = []
    for name, sources in (("both", [missing, readable]), ("one", [missing])):
        (tmp_path / name).mkdir()
        archives.append(DebianArchive(tmp_path / name, sources, "bookworm-backports"))
        archives[-1].update()
    assert archives[0].candidate("linux-source-test") == "1"
    with pytest.raises(FirstflightError, match=r"^`apt-get update .*` failed: .*none"):
        archives[1].candidate("linux-source-test")
