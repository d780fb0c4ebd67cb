"""CDNs by names, header fields and certificates: each kind of rule, and unusual input from servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firstflight.as_map import OTHERS
from firstflight.cdn import rules
from firstflight.cdn.methods import MAX_VALUE, Methods, WildcardPattern, attributes

OWN = Methods.read(rules.DEFAULT)
# Cases shared with the engine's tests (scanner/native/handshake/src/cdn.rs).
SHARED = json.loads((Path(__file__).parent / "methods.json").read_text())
BOTH = Methods([rules.Rule(**rule, source="these tests") for rule in SHARED["rules"]])
RULES = """
[[rule]]
cdn = "Short"
source = "x"
cname = ["example.net"]
[[rule]]
cdn = "Long"
source = "x"
cname = ["edge.example.net"]
[[rule]]
cdn = "There"
source = "x"
header = "x-there"
[[rule]]
cdn = "Value"
source = "x"
header = "server"
values = ["edge", "Edge/* (*)"]
[[rule]]
cdn = "Later"
source = "x"
header = "server"
values = ["edge/*"]
[[rule]]
cdn = "San"
source = "x"
san = ["example.net"]
[[rule]]
cdn = "LongSan"
source = "x"
san = ["edge.example.net"]
[[rule]]
cdn = "Subject"
source = "x"
subject = ["O=Edge, Inc.", "1.2.3=#0C*"]
[[rule]]
cdn = "Issuer"
source = "x"
issuer = ["CN=Edge CA *"]
"""


@pytest.fixture(scope="module")
def methods(tmp_path_factory: pytest.TempPathFactory) -> Methods:
    path: Path = tmp_path_factory.mktemp("rules") / "rules.toml"
    path.write_text(RULES)
    return Methods.read(path)


@pytest.mark.parametrize(
    ("names", "cdn"),
    [
        ([], OTHERS),
        (["a.test"], OTHERS),
        (["example.net"], "Short"),
        (["www.example.net"], "Short"),
        (["a.test", "WWW.Example.NET."], "Short"),
        (["a.edge.example.net"], "Long"),
        (["edge.example.net"], "Long"),
        (["xedge.example.net"], "Short"),  # rules match whole labels
        (["badexample.net"], OTHERS),
        (["example.net.test"], OTHERS),
        (["example.net.."], OTHERS),
        (["a..example.net"], "Short"),
        # The last name that matches a rule decides, even if other names follow.
        (["a.test", "x.edge.example.net", "y.example.net", "z.test"], "Short"),
        (["y.example.net", "x.edge.example.net"], "Long"),
        (["", ".", "\0", "\ud800.example.net"], "Short"),
        ([f"{'a.' * 150}example.net"], OTHERS),  # longer than any name
    ],
)
def test_by_names(methods: Methods, names: list[str], cdn: str) -> None:
    assert methods.by_names(names) == cdn


@pytest.mark.parametrize(
    ("fields", "cdn"),
    [
        ([], OTHERS),
        ([("x-there", "")], "There"),
        ([("X-There", "1")], "There"),
        ([("x-thereafter", "1")], OTHERS),
        ([("server", "edge")], "Value"),
        ([("server", " EDGE ")], "Value"),
        ([("server", "edges")], OTHERS),
        ([("server", "Edge/1 (fra)")], "Value"),
        ([("server", "edge/1")], "Later"),
        ([("server", "edge/1"), ("server", "edge")], "Value"),
        # The first matching rule decides, not the first field.
        ([("server", "edge"), ("x-there", "1")], "There"),
        ([("server", "x" * 10_000_000)], OTHERS),
        ([("\0", "\0"), ("", ""), ("server", "\ud800")], OTHERS),
    ],
)
def test_by_headers(methods: Methods, fields: list[tuple[str, str]], cdn: str) -> None:
    assert methods.by_headers(fields) == cdn


@pytest.mark.parametrize(
    ("subject", "issuer", "sans", "cdn"),
    [
        ("", "", [], OTHERS),
        ("CN=a", "CN=b", ["a.test"], OTHERS),
        ("", "", ["a.test", "*.example.net"], "San"),
        ("", "", ["example.net"], "San"),
        ("", "", ["b.example.net", "*.EDGE.example.net"], "LongSan"),
        ("", "", ["*.example.net.test", "*", "URI:https://example.net"], OTHERS),
        ("CN=a,O=Edge\\, Inc.,C=US", "", [], "Subject"),
        ("CN=a,o=EDGE\\2C Inc.", "", [], "Subject"),
        ("CN=a+O=Edge\\, Inc.", "", [], "Subject"),
        ("CN=O=Edge\\, Inc.", "", [], OTHERS),
        ("CN=a\\,O=Edge\\, Inc.", "", [], OTHERS),  # a comma within the name
        ("1.2.3=#0c0161", "", [], "Subject"),
        ("", "CN=Edge CA 1,O=Edge\\, Inc.", [], "Issuer"),
        ("", "O=Edge\\, Inc.", [], OTHERS),  # a rule for subjects
        ("O=Edge\\, Inc.", "CN=Edge CA 1", ["a.example.net"], "San"),
        ("O=Edge\\, Inc.", "CN=Edge CA 1", [], "Subject"),
        (",,=,\\", "\\", ["\ud800"], OTHERS),
        ("O=" + "x" * 5_000_000, "", ["x." * 5_000_000], OTHERS),
    ],
)
def test_by_certificate(methods: Methods, subject: str, issuer: str, sans: list[str], cdn: str) -> None:
    assert methods.by_certificate(subject, issuer, sans) == cdn


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "a", True),
        ("a*", "ba", False),
        ("*a", "ba", True),
        ("*a", "ab", False),
        ("a*a", "a", False),  # the two do not overlap
        ("a*a", "aa", True),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("a*bc*c", "abc", False),
        ("**a", "xa", True),
        ("a.b", "axb", False),
        ("[a]", "a", False),
    ],
)
def test_a_star_is_any_text(pattern: str, text: str, fits: bool) -> None:
    assert WildcardPattern(pattern).fits(text) is fits


def test_stars_take_no_more_than_a_pass() -> None:
    assert not WildcardPattern("*a*a*a*a*a*a*b").fits("a" * MAX_VALUE)


def test_a_value_is_cut_before_it_is_looked_at() -> None:
    assert WildcardPattern("a*").fits("a" * (MAX_VALUE + 1))
    assert not WildcardPattern("*b").fits("a" * MAX_VALUE + "b")


def test_attributes_of_a_name() -> None:
    assert list(attributes("CN=a\\+b+OU=c\\\\,O=\\C3\\BC, x ,C=")) == [
        ("CN", "a+b"),
        ("OU", "c\\"),
        ("O", "Ã¼"),
        ("C", ""),
    ]


@pytest.mark.parametrize(
    ("names", "cdn"),
    [
        (["www.a.test", "www.a.test.cdn.cloudflare.net"], "Cloudflare"),
        (["www.a.test", "www.a.test.edgekey.net", "e1.dscb.akamaiedge.net"], "Akamai"),
        (["a.test", "d111111abcdef8.cloudfront.net"], "Amazon"),
        (["a.test", "dualstack.j.sni.global.fastly.net"], "Fastly"),
        (["a.test", "ghs.googlehosted.com"], "Google"),
        (["www.facebook.com", "star-mini.c10r.facebook.com"], "Meta"),
        (["a.test", "a.azureedge.net", "part-0017.t-0009.t-msedge.net"], "Microsoft"),
        (["a.test", "a.trafficmanager.net", "b.akadns.net"], OTHERS),
        (
            ["a.test", "a.azureedge.net", "x.edgekey.net", "e1.akamaiedge.net"],
            "Akamai",
        ),
    ],
)
def test_our_own_rules_for_names(names: list[str], cdn: str) -> None:
    assert OWN.by_names(names) == cdn


@pytest.mark.parametrize(
    ("fields", "cdn"),
    [
        ({"server": "cloudflare", "cf-ray": "8f3a1b2c3d4e5f60-FRA"}, "Cloudflare"),
        # Cloudflare in front of CloudFront, and Fastly in front of Google: the first CDN is the edge.
        (
            {"server": "cloudflare", "x-amz-cf-pop": "FRA56-P1", "via": "1.1 a.cloudfront.net (CloudFront)"},
            "Cloudflare",
        ),
        ({"server": "Google Frontend", "x-served-by": "cache-fra-eddf8230057-FRA"}, "Fastly"),
        ({"server": "AmazonS3", "via": "1.1 04f0a.cloudfront.net (CloudFront)"}, "Amazon"),
        ({"server": "AmazonS3"}, OTHERS),
        ({"server": "AkamaiGHost"}, "Akamai"),
        ({"server": "Apache", "akamai-grn": "0.08a7cb17.1771389547.c1005fe"}, "Akamai"),
        ({"server": "Apache", "server-timing": 'cdn-cache; desc=HIT, ak_p; desc="1_2"'}, "Akamai"),
        ({"x-azure-ref": "20261123T091603Z-1"}, "Microsoft"),
        ({"server": "nginx", "via": "1.1 google"}, "Google"),
        ({"server": "proxygen-bolt", "x-fb-debug": "x"}, "Meta"),
        ({"server": "BunnyCDN-DE1-1047"}, "Bunny"),
        ({"server": "nginx", "via": "1.1 varnish"}, OTHERS),
    ],
)
def test_our_own_rules_for_headers(fields: dict[str, str], cdn: str) -> None:
    assert OWN.by_headers(fields.items()) == cdn


@pytest.mark.parametrize(
    ("subject", "issuer", "sans", "cdn"),
    [
        ("CN=a.test", "CN=Cloudflare TLS Issuing ECC CA 3,O=SSL Corporation,C=US", ["a.test"], "Cloudflare"),
        ("CN=*.cloudfront.net", "CN=Amazon RSA 2048 M01,O=Amazon,C=US", ["*.cloudfront.net"], "Amazon"),
        ("CN=a.test", "CN=Certainly Intermediate R1,O=Certainly,C=US", ["a.test"], "Fastly"),
        ("CN=a248.e.akamai.net,O=Akamai Technologies\\, Inc.,C=US", "", ["*.akamaized.net"], "Akamai"),
        ("CN=*.google.com", "CN=WE2,O=Google Trust Services,C=US", ["*.google.com"], "Google"),
        # Google's CA also issues certificates for other organisations, mostly for Cloudflare.
        ("CN=a.test", "CN=WE1,O=Google Trust Services,C=US", ["a.test"], OTHERS),
        ("CN=*.facebook.com,O=Meta Platforms\\, Inc.,C=US", "", ["*.facebook.com"], "Meta"),
        ("CN=www.microsoft.com,O=Microsoft Corporation", "", [], "Microsoft"),
        ("CN=a.test", "CN=R11,O=Let's Encrypt,C=US", ["a.test"], OTHERS),
    ],
)
def test_our_own_rules_for_certificates(subject: str, issuer: str, sans: list[str], cdn: str) -> None:
    assert OWN.by_certificate(subject, issuer, sans) == cdn


@pytest.mark.parametrize("case", SHARED["headers"], ids=str)
def test_headers_as_the_engine(case: dict[str, Any]) -> None:
    assert BOTH.by_headers([(name, value) for name, value in case["fields"]]) == case["cdn"]


@pytest.mark.parametrize("case", SHARED["certificates"], ids=str)
def test_certificates_as_the_engine(case: dict[str, Any]) -> None:
    assert BOTH.by_certificate(case["subject"], case["issuer"], case["sans"]) == case["cdn"]
