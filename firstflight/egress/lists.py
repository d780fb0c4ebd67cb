"""Checks block and opt-out lists by the engines' rules before anything is resolved or sent.

A list with a line that is not understood is refused as a whole. tests/attack/list_lines.json verifies that
this parser and the engines' (scanner/native/core/src/policy/list_line.rs) agree.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from firstflight.errors import InputError

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Range = tuple[Ip, Ip]
"""First and last address, of one family."""

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.ASCII)
_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_NOT_A_NAME = "is no address, network or range, and no name either"

# `10.1.2.0-24` means 25 addresses, or by mistake the 256 of `10.1.2.0/24`.
_AMBIGUOUS = "may be a range or a network: write out the last address, or a slash"


def check(blocklists: Sequence[Path], optouts: Sequence[Path]) -> None:
    """Read all lists. InputError with file and line if a line is not understood or a file cannot be read."""
    for paths, names_too in ((blocklists, False), (optouts, True)):
        for path in paths:
            for _ in checked(path, names_too=names_too):
                pass


def checked(path: Path, *, names_too: bool) -> Iterator[Range | str]:
    """Yield the entries of a list that may hold names, or not; errors as for `check`."""
    for number, entry in entries(path):
        if isinstance(entry, str) and not names_too:
            raise _fault(path, number, entry, "is no address, network or range")
        yield entry


def entries(path: Path) -> Iterator[tuple[int, Range | str]]:
    """Yield (line number from 1, addresses or name) of each line with content; errors as for `check`."""
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
    """Return the content of a line; None for empty lines and comments. ValueError gives the fault."""
    line = line.removesuffix("\r")
    if "\r" in line:
        raise ValueError("holds a carriage return: end lines by a line feed")
    return line.partition("#")[0].strip(" \t") or None


def entry_of(text: str) -> Range | str:
    """Parse the content of a line: addresses, or a name in lower case. ValueError gives the fault."""
    found = addresses(text)
    if found is not None:
        return found
    name = re.sub(r"\A(\*\.)+", "", text).strip(".")
    # Checked before lowering: other scripts have letters whose lower case is ASCII.
    if not name.isascii() or not _NAME.fullmatch(name.lower()):
        raise ValueError("is no name, address, network or range")
    name = name.lower()
    _check_name(name, wildcard=text.startswith("*."))
    return name


def addresses(text: str) -> Range | None:
    """Parse an address, network or range; None if the text is none of these, ValueError if it is a wrong one.

    Forms: `192.0.2.1`, `192.0.2.0/24`, `192.0.2.1-192.0.2.9`, `192.0.2.1-9`, and but for the last, IPv6.
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
    """Parse an address without zone; rejects octets with leading zeros (some parsers read them as octal)."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _check_name(name: str, *, wildcard: bool) -> None:
    """Raise ValueError if a valid host name is more likely meant as addresses.

    No top-level domain is a number (RFC 3696 2) or has only one letter. `wildcard`: written as `*.NAME`, so
    certainly a name.
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


def _fault(path: Path, number: int, text: str, why: str) -> InputError:
    return InputError(f"{path}, line {number}: {text!r} {why}; correct it, nothing was sent")
