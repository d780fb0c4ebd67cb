"""Checks block and opt-out lists by the engines' rules before names are resolved or packets are sent.

A list with an invalid line is rejected as a whole. tests/attack/files/list_lines.json verifies that this
parser and the engines' parser (scanner/native/core/src/limits/policy/list_line.rs) agree.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from firstflight.errors import InputError

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Range = tuple[Ip, Ip]
"""First and last address, of the same family."""

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.ASCII)
_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_NOT_A_NAME = "is no address, network or range, and no name either"

# `10.1.2.0-24` means 25 addresses, or is a mistake for the 256 addresses of `10.1.2.0/24`.
_AMBIGUOUS = "may be a range or a network: write out the last address, or a slash"


def check(blocklists: Sequence[Path], optouts: Sequence[Path]) -> None:
    """Read all lines. Raise InputError with file and line for an invalid line, or for an unreadable file."""
    for paths, names_too in ((blocklists, False), (optouts, True)):
        for path in paths:
            for _ in checked(path, names_too=names_too):
                pass


def checked(path: Path, *, names_too: bool) -> Iterator[Range | str]:
    """Yield a list's entries, with or without names in it. Raise like `check`."""
    for number, entry in entries(path):
        if isinstance(entry, str) and not names_too:
            raise _fault(path, number, entry, "is no address, network or range")
        yield entry


def entries(path: Path) -> Iterator[tuple[int, Range | str]]:
    """Yield (line number from 1, addresses or name) for each line with content. Raise like `check`."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}; nothing was sent") from error
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        try:
            entry = content(line)
            if entry is not None:
                yield number, entry_of(entry)
        except ValueError as error:
            raise _fault(path, number, line.strip(), str(error)) from error


def content(line: str) -> str | None:
    """Return a line's content; `None` for empty lines and comments. Raise ValueError with the fault."""
    line = line.removesuffix("\r")
    if "\r" in line:
        raise ValueError("holds a carriage return: end lines by a line feed")
    return line.partition("#")[0].strip(" \t") or None


def entry_of(text: str) -> Range | str:
    """Parse a line's content: addresses, or a name in lower case. Raise ValueError with the fault."""
    ends = addresses(text)
    if ends is not None:
        return ends
    name = re.sub(r"\A(\*\.)+", "", text).strip(".")
    # Checked before conversion to lower case, because letters of other scripts may have ASCII lower case.
    if not name.isascii() or not _NAME.fullmatch(name.lower()):
        raise ValueError("is no name, address, network or range")
    name = name.lower()
    _check_name(name, wildcard=text.startswith("*."))
    return name


def addresses(text: str) -> Range | None:
    """Parse an address, network or range. Return `None` for other text; raise ValueError if it is invalid.

    Forms: `192.0.2.1`, `192.0.2.0/24`, `192.0.2.1-192.0.2.9`, `192.0.2.1-9`. IPv6 has all forms but the last.
    """
    if "/" in text:
        start, _, length = text.partition("/")
        address = _address(start)
        if address is None or not _NUMBER.fullmatch(length) or len(length) > 9:
            return None
        if int(length) > address.max_prefixlen:
            raise ValueError("has a prefix length beyond the address")
        network = ipaddress.ip_network(
            (int(address).to_bytes(address.max_prefixlen // 8, "big"), int(length)), False
        )
        return network.network_address, network.broadcast_address
    if (address := _address(text)) is not None:
        return address, address
    start, dash, end = (part.strip(" \t") for part in text.partition("-"))
    first = _address(start)
    if not dash or first is None:
        return None
    if first.version == 4 and _NUMBER.fullmatch(end) and len(end) <= 3 and int(end) <= 255:
        if start.endswith(".0") and 8 <= int(end) <= 32:
            raise ValueError(_AMBIGUOUS)
        end = f"{start.rpartition('.')[0]}.{end}"
    last = _address(end)
    if last is None:
        return None
    if first.version != last.version:
        raise ValueError("is a range across IPv4 and IPv6")
    if int(last) < int(first):
        raise ValueError("is a range whose end lies before its start")
    return first, last


def _address(text: str) -> Ip | None:
    """Parse an address without zone. Rejects octets with leading zeros (some parsers read them as octal)."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _check_name(name: str, *, wildcard: bool) -> None:
    """Raise ValueError if a valid host name was more likely meant as an address.

    No top-level domain is a number (RFC 3696 2) or a single letter. `wildcard`: the text was `*.NAME`, so it
    is certainly a name.
    """
    labels = name.split(".")
    last = labels[-1]
    numeric = re.fullmatch(r"[0-9._-]+", name) or re.fullmatch(r"[0-9]+|0x[0-9a-f]*", last)
    if numeric or len(last) == 1:
        raise ValueError(_NOT_A_NAME)
    if len(labels) == 4 and all(label.isdigit() for label in labels[:3]) and not wildcard:
        raise ValueError(
            "looks like addresses and is no network or range; a name like that is written *.NAME"
        )
    if name.endswith((".in-addr.arpa", ".ip6.arpa")):
        raise ValueError("is the reverse name of a network: write the network itself")
    if re.fullmatch(r"as[0-9]+", name):
        raise ValueError("is the number of an AS: write its networks")


def _fault(path: Path, number: int, text: str, reason: str) -> InputError:
    return InputError(f"{path}, line {number}: {text!r} {reason}; correct it, nothing was sent")
