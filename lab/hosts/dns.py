"""The lab's name server: BIND on host `dns`, authoritative for all names, and resolver for its clients.

Every registered domain is a separate zone. The root zone exists and is empty, so that an unknown name is
NXDOMAIN immediately and no query leaves the server. One answer follows CNAMEs across zones, like the answer
of a resolver. A broken zone's file cannot be loaded, so its names are always an immediate SERVFAIL. All
files are in STATE/dns.
"""

from __future__ import annotations

import argparse
import base64
import ipaddress
import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.rdatatype

from firstflight.errors import FirstflightError, UsageError
from lab.declared.model import DnsRecord, Host, Service
from lab.system.programs import program

SERVER_NAME = "ns.lab.test"
RELOAD_TIMEOUT_S = 15.0
_SERIAL = re.compile(r"^@ \d+ IN SOA \S+ \S+ (\d+) ", re.MULTILINE)


def zone_of(name: str) -> str:
    """Return a name's zone: the registered domain, here always the last two labels."""
    labels = name.rstrip(".").lower().split(".")
    if len(labels) < 2:
        raise UsageError(f"lab name {name}: needs at least two labels, as in example.test")
    return ".".join(labels[-2:])


def zone_text(zone: str, records: Iterable[DnsRecord], server: Host, serial: int) -> str:
    """Return a zone in master file format (RFC 1035, 5.1). `zone` is "" for the root."""
    origin = f"{zone}."
    lines = [
        f"$ORIGIN {origin}",
        f"@ 300 IN SOA {SERVER_NAME}. hostmaster.lab.test. {serial} 3600 600 86400 60",
        f"@ 300 IN NS {SERVER_NAME}.",
    ]
    if zone in ("", zone_of(SERVER_NAME)):  # both contain the server's name
        lines += [f"{SERVER_NAME}. 300 IN A {server.v4}", f"{SERVER_NAME}. 300 IN AAAA {server.v6}"]
    for record in records:
        if record.type == "CNAME" and record.name.lower() == zone:
            raise UsageError(
                f"lab name {record.name}: a registered domain cannot be a CNAME; use a name below it"
            )
        lines.append(f"{record.name}. {record.ttl} IN {record.type} {_data(record)}")
    return "\n".join(lines) + "\n"


def _data(record: DnsRecord) -> str:
    if record.type in ("CNAME", "NS"):
        return record.data.rstrip(".") + "."
    if record.type == "TXT" and not record.data.startswith('"'):
        return '"' + record.data.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return record.data


def write_zones(
    folder: Path, records: Iterable[DnsRecord], broken: Collection[str], server: Host
) -> list[str]:
    """Write every zone that has changed, with a higher serial; return the changed zones.

    `broken` are zones that must fail to load. A zone's file is folder/ZONE.zone, for the root
    `root.zone`.
    """
    zones: dict[str, list[DnsRecord]] = {"": [], zone_of(SERVER_NAME): []}
    for record in records:
        zones.setdefault(zone_of(record.name), []).append(record)
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for zone, content in zones.items():
        path = folder / f"{zone or 'root'}.zone"
        old_text = path.read_text() if path.exists() else ""
        serial = served_serial(old_text)
        if old_text != zone_text(zone, content, server, serial):
            _replace(path, zone_text(zone, content, server, serial + 1))
            changed.append(zone)
    for zone in broken:
        if zone in zones:
            raise UsageError(f"lab zone {zone} is declared broken and has records; remove one of the two")
        # A zone without SOA does not load, and a zone that is configured but not loaded is SERVFAIL.
        _replace(folder / f"{zone}.zone", f"; {zone} cannot be loaded: it has no SOA record\n")
    return changed


def served_serial(text: str) -> int:
    """Return the serial in a zone file's text, or 0 if the text has no serial."""
    match = _SERIAL.search(text)
    return int(match[1]) if match else 0


def _replace(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.rename(path)


def locks_a_file(version: str) -> bool:
    """Return whether a BIND whose `named -v` prints `version` locks a file of the machine, unless configured.

    BIND 9.20 (Debian 13) rejects the option.
    """
    found = re.match(r"BIND (\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) < (9, 20)


def named_config(folder: Path, server: Host, secret: str, version: str) -> str:
    """Return BIND's configuration: paths inside `folder`, almost no cache, control on loopback with a key.

    `version`: the first line of `named -v`.
    """
    options = [
        f'directory "{folder}"',
        "pid-file none",
        *(["lock-file none"] if locks_a_file(version) else []),
        "session-keyfile none",
        f'managed-keys-directory "{folder}"',
        f"listen-on {{ {server.v4}; 127.0.0.1; }}",
        f"listen-on-v6 {{ {server.v6}; }}",
        "recursion yes",
        "allow-query { any; }",
        "allow-recursion { any; }",
        "empty-zones-enable no",
        "dnssec-validation no",
        "notify no",
        "minimal-responses yes",
        # The first address must be the same for every client, or rows could not be compared with the truth.
        "rrset-order { order none; }",
        "max-cache-size 8m",
    ]
    lines = [
        _key(secret),
        "controls { inet 127.0.0.1 port 953 allow { 127.0.0.1; } keys { lab; }; };",
        "options {",
        *(f"  {option};" for option in options),
        "};",
        "logging { category lame-servers { null; }; };",
    ]
    for path in sorted((folder / "zones").glob("*.zone")):
        zone = "." if path.stem == "root" else path.stem
        lines.append(f'zone "{zone}" {{ type primary; file "zones/{path.name}"; }};')
    return "\n".join(lines) + "\n"


def _key(secret: str) -> str:
    return f'key "lab" {{ algorithm hmac-sha256; secret "{secret}"; }};'


def dns_service(state: Path, server: Host, records: Iterable[DnsRecord], broken: Collection[str]) -> Service:
    """Rewrite STATE/dns and return BIND as a service."""
    folder = state / "dns"
    write_zones(folder / "zones", records, broken, server)
    secret = base64.b64encode(os.urandom(32)).decode()
    named = program("named", "bind9")
    version = subprocess.run([named, "-v"], capture_output=True, text=True, check=True).stdout
    for name, text in (
        ("named.conf", named_config(folder, server, secret, version)),
        (
            "rndc.conf",
            f"{_key(secret)}\noptions {{ default-key lab; default-server 127.0.0.1; default-port 953; }};\n",
        ),
    ):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    argv = (named, "-g", "-n", "1", "-c", str(folder / "named.conf"))
    return Service(name="named", host=server.name, argv=argv, ready=r"\brunning$", cwd=folder)


def reload_command(state: Path, server: Host) -> tuple[str, list[str]]:
    """Return (host, argv) of the command that makes BIND serve the written zones and waits for the result."""
    return server.name, [
        sys.executable,
        "-P",
        "-m",
        "lab.hosts.dns",
        "--state",
        str(state),
        "--server",
        server.v4,
    ]


def expected_serials(folder: Path) -> dict[str, int]:
    """Return zone -> serial of the zone files in `folder`, without broken zones."""
    serials = {path.stem: served_serial(path.read_text()) for path in folder.glob("*.zone")}
    return {"" if zone == "root" else zone: serial for zone, serial in serials.items() if serial}


def outdated(server: str, serials: Mapping[str, int]) -> set[str]:
    """Return the zones that `server` does not serve with their expected serial.

    If the server does not answer, all zones that were not yet checked are among them.
    """
    stale: set[str] = set()
    for number, (zone, serial) in enumerate(serials.items()):
        query = dns.message.make_query(f"{zone}.", dns.rdatatype.SOA)
        try:
            answer = dns.query.udp(query, server, timeout=2)
        except (dns.exception.Timeout, OSError):
            return stale | set(list(serials)[number:])
        served = [
            rdata.serial for rrset in answer.answer for rdata in rrset if rdata.rdtype == dns.rdatatype.SOA
        ]
        if served != [serial]:
            stale.add(zone)
    return stale


def reload(state: Path, server: str) -> None:
    """Make BIND reload the zone files; return when `server` serves all zones."""
    folder = state / "dns"
    serials = expected_serials(folder / "zones")
    command = [program("rndc", "bind9"), "-c", str(folder / "rndc.conf"), "reload"]
    end = time.monotonic() + RELOAD_TIMEOUT_S
    stale = outdated(server, serials)
    while stale:
        for zone in stale:  # BIND skips a file that is not newer than its zone
            os.utime(folder / "zones" / f"{zone or 'root'}.zone")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise FirstflightError(f"BIND cannot reload: {done.stderr.strip()}; is the lab up?")
        retry_at = min(time.monotonic() + 1.0, end)
        while (
            stale := outdated(server, {zone: serials[zone] for zone in stale})
        ) and time.monotonic() < retry_at:
            time.sleep(0.02)
        if stale and time.monotonic() >= end:
            zones = ", ".join(zone or "." for zone in sorted(stale)[:5])
            raise FirstflightError(f"BIND does not serve {len(stale)} new zones ({zones}, ...); see its log")


def main(arguments: Sequence[str] | None = None) -> int:
    """Reload on host `dns` (`python -m lab.hosts.dns --state DIR --server IP`); 0 once it serves them."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.hosts.dns", description="serve the zone files as they are now"
    )
    parser.add_argument("--state", type=Path, required=True, help="the lab's state folder")
    parser.add_argument("--server", required=True, type=lambda text: str(ipaddress.ip_address(text)))
    options = parser.parse_args(arguments)
    try:
        reload(options.state, options.server)
    except FirstflightError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
