"""Settings: defaults, and one sentence per fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from downloader import outline
from firstflight import settings
from firstflight.errors import UsageError
from firstflight.run.outline import Known
from firstflight.run.resolvers import configured_resolvers
from orchestration.local import preview
from scanner.resolver.configured import configured_resolver
from tests import minimal

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    minimal.write(tmp_path)
    return tmp_path


def load(folder: Path, text: str, *overrides: str) -> settings.Settings:
    path = folder / "c.toml"
    path.write_text(text)
    return settings.load(path, overrides)[0]


def faults(folder: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        load(folder, text, *overrides)
    assert caught.value.exit_status == 2
    return str(caught.value).splitlines()


def test_defaults_are_polite(folder: Path) -> None:
    found = load(folder, minimal.CONFIG)
    assert found.probe.per_address_rate == 1
    assert 0 < found.probe.per_prefix_rate <= 10
    assert found.probe.attempts == 2
    assert not found.probe.all_addresses
    assert found.campaign.repetition_interval_s >= 86_400
    assert found.capture.enabled


def test_relative_paths_are_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert load(folder, minimal.CONFIG).targets.file == folder / "names.csv"


def test_every_fault_is_one_sentence_with_file_and_key(folder: Path) -> None:
    text = minimal.CONFIG.replace('name = "here"', 'name = "Not OK"\ntypo = 1') + "[probe]\nrate = -3\n"
    found = faults(folder, text)
    assert len(found) == 3
    assert all(line.startswith(f"{folder / 'c.toml'}: ") for line in found)
    assert any(": vantage.0.typo: no such setting" in line for line in found)
    assert any(": probe.rate: " in line and "-3" in line for line in found)
    assert any(": vantage.0.name: " in line for line in found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('contact = "noc@example.org"', ""), "contact is empty"),
        (('file = "names.csv"', 'file = "nothing.csv"'), "no such file"),
        (('file = "names.csv"', 'file = "names.csv"\ndate = 2024-01-01'), "neither `date` nor `list_id`"),
        (('source = "file"\nfile = "names.csv"', 'source = "tranco"\ndate = 2024-01-01'), "needs `top`"),
        (('rib = "file"', 'rib = "routeviews"'), 'rib = "routeviews" needs `date`'),
        (('name = "here"', 'name = "here"\n[[vantage]]\nname = "here"'), "two vantage points"),
        (('name = "here"', 'name = "as_data"'), "cannot be called"),
        (('name = "here"', 'name = "here"\nports = "1-70000"'), "FIRST-LAST"),
        (('name = "here"', 'name = "here"\n[probe]\nallow_net = ["8.8.8.0/24"]'), "not inside loopback"),
        (("[[vantage]]", "[vantagee]"), "no such setting"),
        (('[[vantage]]\nname = "here"', ""), "there is no [[vantage]]"),
        (
            ("[[vantage]]", '[download]\nenabled = true\ndraw = "survey"\n[[vantage]]'),
            "needs the survey of TCP options in the same run",
        ),
    ],
)
def test_inconsistent_settings_are_refused(folder: Path, change: tuple[str, str], message: str) -> None:
    assert any(message in line for line in faults(folder, minimal.CONFIG.replace(*change)))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("probe.rate=inf", "should be a finite number"),
        ("probe.rate=1e300", "probe.rate"),
        ("probe.rate=1\nx=2", "probe.rate"),
        ("campaign.repetition_interval_s=inf", "should be a finite number"),
        ("campaign.repetition_interval_s=1e12", "campaign.repetition_interval_s"),
        ("resolve.timeout_s=nan", "should be a finite number"),
        ("backoff.window_s=inf", "should be a finite number"),
        ("campaign.contact=" + "x" * 501, "longer than 500 bytes"),
        ("campaign.contact=\x07", "control characters"),
        ("targets.date=tomorrow", "is not a date: write it as YYYY-MM-DD"),
        ("resolve.resolver=nowhere", "neither an IPv4 nor an IPv6 address"),
        ("resolve.resolvers=['nowhere']", "neither an IPv4 nor an IPv6 address"),
        ("resolve.resolvers=['192.0.2.53,weight=0']", "is not like 192.0.2.53"),
        ("resolve.resolvers=['192.0.2.53#x']", "is not like 192.0.2.53"),
        ("store.url=mysql://x", "is not the URL of a store"),
    ],
)
def test_impossible_values_are_refused(folder: Path, override: str, message: str) -> None:
    (line,) = faults(folder, minimal.CONFIG, override)
    assert override.split("=")[0] in line and message in line


@pytest.mark.parametrize("name", ["targets", "load", "logs", "rules", "stop"])
def test_no_vantage_point_is_called_like_a_file_of_the_run(folder: Path, name: str) -> None:
    (line,) = faults(folder, minimal.CONFIG.replace('name = "here"', f'name = "{name}"'))
    assert f"a vantage point cannot be called {name}" in line


def test_broken_toml_and_a_missing_file_are_sentences(folder: Path) -> None:
    assert "is not TOML" in faults(folder, "[campaign\n")[0]
    with pytest.raises(UsageError, match=r"cannot read .*nowhere.toml: No such file"):
        settings.load(folder / "nowhere.toml")


def test_flags_win_over_the_file(folder: Path) -> None:
    text = minimal.CONFIG + "[probe]\nrate = 5\n"
    found = load(folder, text, "probe.rate=100", "resolve.resolver=192.0.2.1", "targets.top=7")
    assert (found.probe.rate, found.resolve.resolver, found.targets.top) == (100, "192.0.2.1", 7)
    assert "write it as section.key=value" in faults(folder, text, "rate=1")[0]
    assert "no such setting" in faults(folder, text, "probe.speed=1")[0]
    assert faults(folder, text, "manners.factor=3")[0].endswith(
        "manners: no such setting; its name is backoff"
    )
    assert "its name is watch.precedence" in faults(folder, text, "watch.gives_way=true")[0]
    assert "is a list" in faults(folder, text, "vantage.name=x")[0]


def test_resolvers_are_named_in_one_place(folder: Path) -> None:
    text = minimal.CONFIG + '[resolve]\nresolvers = ["192.0.2.53", "2001:db8::53#5353,weight=2"]\n'
    found = load(folder, text).resolve
    assert found.resolvers == ("192.0.2.53#53", "2001:db8::53#5353,weight=2")
    assert configured_resolvers(found) == found.resolvers
    first = configured_resolver(found)
    assert (first.address, first.port) == ("192.0.2.53", 53)
    assert "both given" in faults(folder, text, "resolve.resolver=192.0.2.1")[0]


def test_stored_settings_read_back_the_same(folder: Path) -> None:
    found = load(folder, minimal.CONFIG)
    (folder / "names.csv").unlink()
    stored = json.loads(json.dumps(found.model_dump(mode="json")))
    assert settings.check(stored, "stored", Path("/"), check_files=False) == found


def test_a_lab_network_needs_no_contact(folder: Path) -> None:
    text = (
        minimal.CONFIG.replace('contact = "noc@example.org"', "") + '[probe]\nallow_net = ["198.18.0.0/15"]\n'
    )
    assert load(folder, text).probe.allow_net == ("198.18.0.0/15",)


@pytest.mark.parametrize(
    ("overrides", "is_refused"),
    [
        (("campaign.repetition_interval_s=3599",), True),
        (("campaign.repetition_interval_s=3600",), False),
        (("campaign.repetition_interval_s=3599", "download.run_pause_s=3599"), False),
        (("campaign.repetition_interval_s=0", "campaign.repetitions=1"), False),
        (("campaign.repetition_interval_s=0", "download.enabled=false"), False),
        (("campaign.repetition_interval_s=0", 'probe.allow_net=["198.18.0.0/15"]'), False),
    ],
)
def test_repetitions_of_downloads_are_a_pause_apart(
    folder: Path, overrides: tuple[str, ...], is_refused: bool
) -> None:
    text = minimal.CONFIG + "[download]\nenabled = true\n"
    overrides = ("campaign.repetitions=2", *overrides)
    if not is_refused:
        load(folder, text, *overrides)
        return
    (line,) = faults(folder, text, *overrides)
    assert "repetition_interval_s is 3599, but a name and address gets downloads once in 3600 s" in line


@pytest.mark.parametrize(
    ("overrides", "is_refused"),
    [
        (("download.run_pause_s=22",), True),
        (("download.run_pause_s=22.1",), False),
        (("download.run_pause_s=22", "resolve.attempts=2"), False),
        (("download.run_pause_s=22", "campaign.clock_slack_s=2.1"), False),
        (("download.run_pause_s=22", "download.resolve_again=false"), False),
        (("download.run_pause_s=22", "campaign.shared_limits=false"), False),
        (("download.run_pause_s=22", "download.enabled=false"), False),
    ],
)
def test_resolving_again_ends_in_the_same_turn(
    folder: Path, overrides: tuple[str, ...], is_refused: bool
) -> None:
    """With three attempts of 4 s, and up to three for the check, it can take 24 s."""
    more = "[download]\nenabled = true\n[resolve]\ntimeout_s = 4\n"
    text = minimal.CONFIG + '[[vantage]]\nname = "there"\n' + more
    load(folder, minimal.CONFIG + more, "download.run_pause_s=1")
    if not is_refused:
        load(folder, text, *overrides)
        return
    (line,) = faults(folder, text, *overrides)
    assert "download.run_pause_s is 22, but resolving a name again can take 24 s" in line


def test_a_dry_run_counts_dns_queries_of_a_turn(folder: Path) -> None:
    both = minimal.CONFIG + '[[vantage]]\nname = "there"\n'
    for text, words in ((minimal.CONFIG, "at most 6 DNS queries"), (both, "at most 6 DNS queries per turn")):
        found = load(folder, text, "download.enabled=true")
        planned = outline.outline(found, Known(names=1), found.vantage[0])
        assert planned.count == f"at most 1 files to download, each after {words}"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("", "address gets them once in each repetition"),
        ('[[vantage]]\nname = "there"\n', "address gets them once in 3600 s from all vantage points"),
        (
            '[[vantage]]\nname = "there"\n[download]\nrun_pause_s = 60\n',
            "address gets them once in 60 s from all vantage points",
        ),
    ],
)
def test_how_often_an_address_gets_downloads(folder: Path, more: str, says: str) -> None:
    found = load(folder, minimal.CONFIG + more, "download.enabled=true")
    assert downloads_line(found).endswith(says)
    alone = load(folder, minimal.CONFIG + more, "download.enabled=true", "campaign.shared_limits=false")
    often = "once in each repetition from each vantage point, which share no limits"
    assert downloads_line(alone).endswith(often if more else says)


def downloads_line(found: settings.Settings) -> str:
    """Return the line about downloads in a dry run."""
    (line,) = (line for line in preview.describe(found) if line.startswith("downloads: "))
    return line


@pytest.mark.parametrize(
    ("sets", "quic", "says", "files"),
    [
        ("bl,quiche", 558, "Microsoft, 1000 of other networks, 558 files with HTTP/3, of names", 2558),
        ("bl,quiche", 10**6, "1000000 files with HTTP/3", 5000),
        ("bl", 558, "Google and Microsoft, 1000 of other networks, of names", 2000),
        ("quiche", 558, "downloads: 558 files with HTTP/3, of names that accept all TCP options, 2 of", 558),
    ],
)
def test_a_survey_draws_files_only_for_the_sets_to_compare(
    folder: Path, sets: str, quic: int, says: str, files: int
) -> None:
    on = ("download.enabled=true", "tcp_options.enabled=true", 'download.draw="survey"')
    found = load(
        folder, minimal.CONFIG, *on, f"download.quic={quic}", f"download.sets={json.dumps(sets.split(','))}"
    )
    assert says in downloads_line(found)
    planned = outline.outline(found, Known(names=5000), found.vantage[0])
    assert planned.count is not None and planned.count.startswith(f"at most {files} files to download")


@pytest.mark.parametrize("name", ["own-list.toml", "watch.toml"])
def test_the_example_wants_nothing_but_a_contact(name: str) -> None:
    example = ROOT / "examples" / name
    with pytest.raises(UsageError) as caught:
        settings.load(example)
    assert [line.split(": ", 1)[1] for line in str(caught.value).splitlines()] == [
        "settings: campaign.contact is empty: say how operators can reach you (it is sent in every close), "
        "or name lab networks in probe.allow_net"
    ]
    assert settings.load(example, ["campaign.contact=noc@example.org"])[0].vantage[0].name == "here"


def test_the_lab_campaign_is_valid_once_the_lab_has_its_files() -> None:
    import tomllib

    path = ROOT / "lab" / "campaign.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    found = settings.check(data, str(path), path.parent, check_files=False)
    assert [v.name for v in found.vantage] == ["hamburg", "los_angeles", "sao_paulo", "hong_kong"]
    assert found.campaign.repetitions == 2
    assert not found.campaign.contact and found.probe.allow_net


def test_unset_rules_of_cdns_are_not_stored(folder: Path) -> None:
    """A vantage point with an earlier version rejects unknown settings."""
    plain = load(folder, minimal.CONFIG)
    assert not {"cdn_rules", "cdn_rules_extra"} & set(plain.model_dump(mode="json")["as_data"])
    (folder / "rules.toml").touch()
    changed = load(folder, minimal.CONFIG, 'as_data.cdn_rules_extra=["rules.toml"]')
    stored = changed.model_dump(mode="json")
    assert stored["as_data"]["cdn_rules_extra"] == [str(folder / "rules.toml")]
    assert "cdn_rules" not in stored["as_data"]
    assert settings.check(stored, "stored", folder) == changed
