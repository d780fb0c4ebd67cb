"""Permitted targets of other scanners, and the input for QScanner.

tests/rules tests the policy's decisions.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from firstflight.egress.permitted import Permitted
from firstflight.errors import InputError
from scanner.external import qscanner
from scanner.external.qscanner import ScanOptions, ScanTarget


@pytest.fixture
def permitted(tmp_path: Path) -> Permitted:
    (tmp_path / "block.conf").write_text(
        "192.168.7.0/24  # a comment\n9.9.9.9\n2600::1\n::ffff:9.9.7.1-::ffff:9.9.7.2\n"
    )
    (tmp_path / "optout.conf").write_text("example.org\n9.9.8.0-9.9.8.3\n")
    lists = [tmp_path / "block.conf"], [tmp_path / "optout.conf"]
    return Permitted(*lists, ["192.168.0.0/16", "fd00::/8"])


def test_networks_for_zmap(permitted: Permitted) -> None:
    blocked = [ipaddress.IPv4Network(text) for text in permitted.blocked_ipv4()]
    for address, expected in (
        ("9.9.9.9", True),
        ("9.9.9.8", False),
        ("9.9.8.0", True),
        ("9.9.7.2", True),
        ("9.9.7.0", False),
        ("192.168.7.255", True),
        ("192.168.6.255", False),
        ("192.167.255.255", False),
        ("10.255.255.255", True),
        ("168.63.129.16", True),
        ("255.255.255.255", True),
        ("1.1.1.1", False),
    ):
        assert any(ipaddress.ip_address(address) in network for network in blocked) == expected, address


@pytest.mark.parametrize(
    ("network", "special"),
    [
        ("1.1.1.0/24", None),
        ("9.9.9.0/24", None),  # on a list, but not special
        ("192.168.0.0/16", None),  # allowed
        ("192.0.0.0/8", ("192.0.0.0", "192.0.0.255")),
        ("172.0.0.0/8", ("172.16.0.0", "172.31.255.255")),
        ("168.63.129.0/24", ("168.63.129.16", "168.63.129.16")),
        ("10.1.0.0/16", ("10.1.0.0", "10.1.255.255")),
    ],
)
def test_special_parts_of_networks(
    permitted: Permitted, network: str, special: tuple[str, str] | None
) -> None:
    span = ipaddress.IPv4Network(network)
    found = permitted.special_ipv4([(int(span.network_address), int(span.broadcast_address))])
    shown = [(str(ipaddress.IPv4Address(low)), str(ipaddress.IPv4Address(high))) for low, high in found]
    assert shown[:1] == ([] if special is None else [special])


def test_contact_is_needed_for_what_is_not_allowed(permitted: Permitted) -> None:
    def needed(first: str, last: str) -> bool:
        low, high = ipaddress.ip_address(first), ipaddress.ip_address(last)
        is_needed = permitted.needs_contact(int(low), int(high), low.version)
        if first == last:
            assert permitted.address_needs_contact(first) is is_needed
        return is_needed

    assert not needed("192.168.0.0", "192.168.255.255")
    assert needed("192.168.0.0", "192.169.0.0")
    assert needed("192.167.255.255", "192.168.0.0")
    assert needed("fc00::1", "fc00::1")
    assert not needed("fd00::1", "fd00::1")


def test_input_of_qscanner(permitted: Permitted, tmp_path: Path) -> None:
    listed = tmp_path / "targets.csv"
    listed.write_text(
        "ip,domain,port\n8.8.8.8,a.test,\n9.9.9.9,b.test,443\n2600::2,,8443\n8.8.8.8,example.org,1\n"
    )
    targets = qscanner.targets(listed)
    assert targets[:2] == [ScanTarget("8.8.8.8", "a.test", 443), ScanTarget("9.9.9.9", "b.test", 443)]
    assert qscanner.write_input(targets, permitted, tmp_path / "input.csv") == (2, 2)
    written = (tmp_path / "input.csv").read_text()
    assert written == "saddr,hostname,port\n8.8.8.8,a.test,443\n2600::2,,8443\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "the first line must be the header"),
        ("a,b\n", "the first line must be the header"),
        ("ip,domain,port\nx,,\n", "line 2: 'x' does not appear"),
        ("ip,domain,port\n1.1.1.1,,70000\n", "line 2: 70000 is no port"),
        ("ip,domain,port\n1.1.1.1,,443\n1.1.1.1\n,,\n", "line 4"),
    ],
)
def test_lines_that_are_no_targets(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "targets.csv").write_text(content)
    with pytest.raises(InputError, match=says):
        qscanner.targets(tmp_path / "targets.csv")


@pytest.mark.parametrize(
    ("rate", "size", "refill_ms"),
    [(50, "5", "100"), (1000, "100", "100"), (4, "1", "250"), (0.5, "1", "2000")],
)
def test_bucket_of_qscanner(rate: float, size: str, refill_ms: str) -> None:
    argv = qscanner.arguments(ScanOptions(Path("out"), rate, "./qscanner"), Path("in.csv"))
    assert argv[0] == "./qscanner"
    options = dict(zip(argv[1:5:2], argv[2:5:2], strict=True))
    assert options == {"-input": "in.csv", "-output": "out"}
    assert argv[-4:] == ["-bucket-size", size, "-bucket-refill-duration", refill_ms]
