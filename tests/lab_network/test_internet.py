"""The behaviour file's declarations, compared with the requirements on the lab."""

from __future__ import annotations

from collections import Counter, defaultdict
from ipaddress import ip_address, ip_network
from pathlib import Path
from statistics import median

import pytest

from firstflight.errors import UsageError
from firstflight.run import accounting
from lab.declared import internet
from lab.declared.internet import DEFAULT, Internet
from lab.declared.model import Endpoint
from lab.expected import truth
from tests.paper import TABLE_1

NET = internet.load()

# Values in ms, from the text of the paper.
MEDIANS = {"Akamai": 20.9, "Amazon": 6.4, "Cloudflare": 3.2, "Google": 30.3}


def with_lines(tmp_path: Path, extra: str = "", **replaced: str) -> Internet:
    """Load the behaviour file with additional lines at the end and replaced values of top-level keys."""
    text = DEFAULT.read_text(encoding="utf-8")
    for key, value in replaced.items():
        before = next(line for line in text.splitlines() if line.startswith(f"{key} = "))
        text = text.replace(before, f"{key} = {value}", 1)
    path = tmp_path / "internet.toml"
    path.write_text(text + extra, encoding="utf-8")
    return internet.load(path)


def test_sizes() -> None:
    assert len(NET.names) >= 400
    assert [rank for rank, _ in NET.names] == list(range(1, len(NET.names) + 1))
    domains = defaultdict(set)
    for endpoint in NET.endpoints:
        domains[endpoint.cdn].add(endpoint.domain)
    for cdn in TABLE_1:
        assert len(domains[cdn]) >= (100 if cdn == "Cloudflare" else 20), cdn


def test_table1_is_the_papers_to_the_nearest_name() -> None:
    rows = {row.cdn: row for row in truth.table1(NET)}
    assert set(rows) == set(TABLE_1)
    for cdn, row in rows.items():
        assert row.iack_share_max is not None
        assert abs(row.iack_share_max * row.domains - TABLE_1[cdn] / 100 * row.domains) <= 0.5, cdn
    assert rows["Amazon"].variation == pytest.approx(0.18)
    assert rows["Others"].domains == 79


@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize("families", [("A",), ("A", "AAAA")])
def test_medians_are_exact_in_every_epoch(epoch: int, families: tuple[str, ...]) -> None:
    served = {r.data for r in NET.records(epoch) if r.type in families}
    delays: dict[str, list[int]] = defaultdict(list)
    for endpoint in NET.endpoints:
        if endpoint.outcome == "iack" and endpoint.ip in served and endpoint.cdn and endpoint.delay_us:
            delays[endpoint.cdn].append(endpoint.delay_us)
    for cdn, expected in MEDIANS.items():
        assert median(delays[cdn]) == expected * 1000, cdn


def test_the_list_has_a_long_tail() -> None:
    for cdn in ("Cloudflare", "Amazon"):
        delays = sorted(e.delay_us or 0 for e in NET.endpoints if e.cdn == cdn and e.mode == "iack")
        assert delays[-1] > 6 * median(delays), cdn


def test_every_cdn_uses_all_its_ases() -> None:
    origins = defaultdict(set)
    for endpoint in NET.endpoints:
        origins[endpoint.cdn].add(endpoint.asn)
    assert origins["Akamai"] == {16625, 20940}
    assert origins["Amazon"] == {14618, 16509}
    assert origins["Cloudflare"] == {13335, 209242}
    assert origins["Google"] == {15169, 396982}
    assert len(origins["Others"]) > 5
    assert origins[None] == {None}


def test_addresses() -> None:
    owners = defaultdict(set)
    at: dict[str, list[Endpoint]] = defaultdict(list)
    for endpoint in NET.endpoints:
        owners[endpoint.ip].add((endpoint.host, endpoint.stack))
        at[endpoint.ip].append(endpoint)
        nets = (ip_network("198.18.0.0/15"), ip_network("2001:db8::/32"))
        assert any(ip_address(endpoint.ip) in net for net in nets)
    assert all(len(those) == 1 for those in owners.values())
    # The limit is one probe per second and address. No address may delay a campaign.
    assert max(len(those) for those in at.values()) == 2
    per_subnet = Counter(ip_network(f"{ip}/24", strict=False) for ip in at if ":" not in ip)
    assert max(per_subnet.values()) <= 16


def test_epochs_move_names_and_never_change_what_an_address_does() -> None:
    def served(epoch: int) -> dict[str, str]:
        return {r.name: r.data for r in NET.records(epoch) if r.type == "A"}

    first, second, third = (served(epoch) for epoch in (1, 2, 3))
    moved = {name for name in first if first[name] != second[name]}
    assert len(moved) == 18
    assert len({name for name in first if first[name] != third[name]}) == 8
    assert len({(e.domain, e.ip) for e in NET.endpoints}) == len(NET.endpoints)
    by_key = {(e.domain, e.ip): e.mode for e in NET.endpoints}
    assert {by_key[name, second[name]] for name in moved if (name, second[name]) in by_key} == {"wait"}
    with pytest.raises(UsageError, match="epoch 4"):
        NET.records(4)


def test_every_outcome_that_a_server_can_cause_occurs() -> None:
    assert {e.outcome for e in NET.endpoints} == {*accounting.SENT, "blocked"}


def test_round_trip_times_are_within_bounds() -> None:
    vantages = [h.name for h in NET.hosts if h.kind == "vantage"]
    edges = [h.name for h in NET.hosts if h.kind == "edge"]
    rtts = [NET.rtt_us(v, e) for v in vantages for e in edges]
    assert min(rtts) == 1000
    assert max(rtts) == 250_000
    assert NET.rtt_us("hamburg", "akamai") == NET.rtt_us("akamai", "hamburg")


def test_an_override_changes_only_its_name(tmp_path: Path) -> None:
    name = "site-017.cloudflare.test"
    changed = with_lines(tmp_path, f'\n[[override]]\ndomain = "{name}"\nmode = "wait"\ndelay_ms = 9.0\n')
    differing = [(a, b) for a, b in zip(NET.endpoints, changed.endpoints, strict=True) if a != b]
    assert {a.domain for a, _ in differing} == {name}
    assert all(b.outcome == "coalesced" and b.delay_us == 9000 for _, b in differing)
    assert changed.records(1) == NET.records(1)


def test_another_seed_draws_another_internet_with_the_same_table(tmp_path: Path) -> None:
    other = with_lines(tmp_path, seed="1")
    assert other.endpoints != NET.endpoints
    assert truth.table1(other) == truth.table1(NET)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ('\n[[override]]\ndomain = "nobody.test"\nmode = "wait"\ndelay_ms = 9.0\n', "nobody.test"),
        ('\n[[special]]\ndomain = "closed.odd.test"\n', "declared twice"),
        ('\n[[special]]\ndomain = "x.odd.test"\na = ["198.18.144.99"]\n', "needs `mode`"),
        ("\n[weather]\nrain = 1\n", "weather"),
        ("\n[[[", "not TOML"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(tmp_path: Path, extra: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        with_lines(tmp_path, extra)
    assert "\n" not in str(caught.value)


def test_truth_has_a_line_for_every_vantage_point_and_address() -> None:
    lines = list(truth.lines(NET))
    keys = Counter((line["vantage"], line["domain"], line["ip"]) for line in lines)
    assert max(keys.values()) == 1
    without = [line for line in lines if line["ip"] is None]
    assert {(line["domain"], line["dns_status"]) for line in without} == {
        ("no-such-name.odd.test", "NXDOMAIN"),
        ("no-address.odd.test", "NOERROR"),
        ("www.broken.test", "SERVFAIL"),
    }
    assert all(line["outcome"] is line["asn"] is line["cdn"] is None for line in without)
    # Every address is served by DNS in some epoch.
    assert all(line["epochs"] for line in lines if line["ip"] is not None)
