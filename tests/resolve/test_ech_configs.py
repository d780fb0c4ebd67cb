"""Encrypted ClientHello in HTTPS records: the engine's columns against a second parser of the same bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import dns.message
import dns.query
import dns.rdatatype
import pytest
from dns.rdtypes.svcbbase import ECHParam, ParamKey, SVCBBase

from tests.resolve.named import Named
from tests.resolve.test_native_engine import native


def config(config_id: int, name: str, version: int = 0xFE0D, extensions: bytes = b"") -> bytes:
    """An ECHConfig (RFC 9849 4)."""
    key, suites = bytes(32), b"\0\1\0\1\0\1\0\3"
    contents = bytes([config_id]) + b"\0\x20" + vector(key, 2) + vector(suites, 2)
    contents += b"\0" + vector(name.encode(), 1) + vector(extensions, 2)
    return version.to_bytes(2) + vector(contents, 2)


def vector(content: bytes, size: int) -> bytes:
    """A vector with its length in `size` bytes (RFC 8446 3.4)."""
    return len(content).to_bytes(size) + content


LISTS = {
    "one": [config(42, "a.test")],
    "several": [config(0, "a.test"), config(255, "b.a.test"), config(7, "c.test")],
    "other": [config(1, "old.test", 0xFE0A), config(9, "new.test"), config(2, "next.test", 0xFE0E)],
    "unknown": [config(1, "old.test", 0xFE0A)],
    "extended": [config(3, "x" * 63 + ".test", extensions=b"\xfe\xed\0\2ab")],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    zone = "".join(
        f'{name} 60 IN HTTPS 1 . ech="{base64.b64encode(vector(b"".join(configs), 2)).decode()}"\n'
        for name, configs in LISTS.items()
    )
    server = Named(tmp_path_factory.mktemp("ech"), {"ech.test": zone})
    server.start()
    yield server
    server.stop()


def parsed(configs: bytes) -> list[tuple[int, str]]:
    """Config id and public name of each configuration of RFC 9849 in an ECHConfigList, by offsets."""
    assert int.from_bytes(configs[:2]) == len(configs) - 2
    found, at = [], 2
    while at < len(configs):
        version, end = configs[at : at + 2], at + 4 + int.from_bytes(configs[at + 2 : at + 4])
        contents, at = configs[at + 4 : end], end
        if version == b"\xfe\x0d":
            key_end = 5 + int.from_bytes(contents[3:5])  # id, KEM, length of the key, key
            suites_end = key_end + 2 + int.from_bytes(contents[key_end : key_end + 2])
            length = contents[suites_end + 1]  # follows maximum_name_length
            found.append((contents[0], contents[suites_end + 2 : suites_end + 2 + length].decode()))
    return found


@pytest.mark.parametrize("name", LISTS)
def test_ids_and_names_are_those_of_a_second_parser(server: Named, name: str) -> None:
    domain = f"{name}.ech.test"
    response = dns.query.udp(
        dns.message.make_query(domain, "HTTPS"), "127.0.0.1", port=server.port, timeout=60
    )
    (record,) = [rdata for rrset in response.answer for rdata in rrset if rdata.rdtype == dns.rdatatype.HTTPS]
    assert isinstance(record, SVCBBase)
    param = record.params[ParamKey.ECH]
    assert isinstance(param, ECHParam)
    theirs = parsed(param.ech)
    assert len(theirs) == sum(config.startswith(b"\xfe\x0d") for config in LISTS[name])
    (ours,) = native([domain], server.port, types=["HTTPS"])
    assert ours["https_ech"] is True
    columns = zip(ours["https_ech_config_ids"] or [], ours["https_ech_public_names"] or [], strict=True)
    assert list(columns) == theirs
