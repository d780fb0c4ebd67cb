"""The lab's namespaces: one per host with `eth0`, and the core, which is connected to all hosts.

The core is the supervisor's namespace. It forwards nothing: its interfaces have no addresses, IPv6 is off,
and only the link emulator (lab/link) reads from them. Neighbours are static, so that no packet waits for
address resolution. Every setting that may affect a measurement is set here and never inherited from the
machine.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from firstflight.errors import FirstflightError
from lab.declared.internet import Internet
from lab.declared.model import Host
from lab.system.namespaces import MARK, entering, inside
from lab.system.programs import program

# Unassigned addresses. They only name the static neighbour; no packet is sent to them.
GATEWAY_V4 = "198.18.15.254"
GATEWAY_V6 = "fe80::ff"

# The ranges that represent the Internet. The core must send no packet, so it has no route to them.
_RANGES = ("198.18.0.0/15", "2001:db8::/32")

_CORE_SYSCTLS = {
    "ipv4/ip_forward": "0",
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
}
_HOST_SYSCTLS = {
    "ipv4/ip_forward": "0",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/icmp_ratelimit": "0",  # every refused probe gets an ICMP message
    "ipv4/ip_local_port_range": "32768 60999",
    "ipv4/ip_unprivileged_port_start": "0",
    "ipv4/tcp_congestion_control": "reno",
    "ipv4/tcp_ecn": "2",
    "ipv4/tcp_sack": "1",
    "ipv4/tcp_timestamps": "1",
    "ipv4/tcp_window_scaling": "1",
    "ipv6/conf/all/disable_ipv6": "0",
    "ipv6/conf/default/disable_ipv6": "0",
    "ipv6/conf/all/forwarding": "0",
    "ipv6/conf/default/accept_dad": "0",
    "ipv6/conf/default/accept_ra": "0",
    "ipv6/conf/default/router_solicitations": "0",
    "ipv6/icmp/ratelimit": "0",
}
# Downloads put each set of TCP options into a namespace connected to the vantage host's. Forwarded packets
# leave through eth0 to the core, where the link emulator passes on only packets to addresses of the lab.
_VANTAGE_SYSCTLS = {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"}


def raise_network(internet: Internet) -> None:
    """Make all namespaces and veth pairs from inside the core; FirstflightError names the failed step."""
    _sysctls(_CORE_SYSCTLS)
    _ip(["link set lo up", *(f"route add unreachable {network}" for network in _RANGES)])
    for host in internet.hosts:
        _run([program("ip", "iproute2"), "netns", "add", host.name])
    for number, host in enumerate(internet.hosts, start=1):
        with inside(host.name):
            settings = {f"ipv4/tcp_{name}": str(value) for name, value in host.tcp}
            _sysctls(_HOST_SYSCTLS | (_VANTAGE_SYSCTLS if host.kind == "vantage" else {}) | settings)
        gateway_mac, mac = macs(number)
        _ip(
            [
                f"link add {host.name} address {gateway_mac} type veth "
                f"peer name eth0 address {mac} netns {host.name}",
                f"link set {host.name} arp off up",
            ]
        )
        _ip(_host_commands(host, gateway_mac), host)
        # With offloading, captures would show giant segments and missing checksums.
        offloads = [
            argument for feature in ("tx", "sg", "tso", "gso", "gro") for argument in (feature, "off")
        ]
        _run([program("ethtool", "ethtool"), "-K", "eth0", *offloads], host)


def macs(number: int) -> tuple[str, str]:
    """Return the Ethernet addresses on a host's veth pair: (core, host's eth0); `number` counts from 1."""
    return f"02:ff:01:00:00:{number:02x}", f"02:ff:00:00:00:{number:02x}"


def _host_commands(host: Host, gateway: str) -> list[str]:
    addresses = [f"{ip}/32" if ":" not in ip else f"{ip}/128 nodad" for ip in (host.v4, host.v6, *host.more)]
    return [
        f"link set lo alias {MARK} up",
        "link set eth0 up",
        *(f"address add {address} dev eth0" for address in addresses),
        f"neighbour replace {GATEWAY_V4} lladdr {gateway} nud permanent dev eth0",
        f"neighbour replace {GATEWAY_V6} lladdr {gateway} nud permanent dev eth0",
        f"route add default via {GATEWAY_V4} dev eth0 onlink src {host.v4}",
        f"route add default via {GATEWAY_V6} dev eth0 onlink src {host.v6}",
    ]


def write_link_config(internet: Internet, file: Path, lateness: Path) -> None:
    """Write lab/link's configuration: hosts and addresses, delays, bottlenecks, and drops."""
    hosts = []
    for number, host in enumerate(internet.hosts, start=1):
        gateway_mac, mac = macs(number)
        hosts.append(
            {
                "name": host.name,
                "interface": host.name,
                "mac": mac,
                "gateway": gateway_mac,
                "addresses": [host.v4, host.v6, *host.more],
            }
        )
    names = [host.name for host in internet.hosts]
    pairs = [(a, b, internet.rtt_us(a, b)) for i, a in enumerate(names) for b in names[i + 1 :]]
    config = {
        "lateness": str(lateness),
        "default_rtt_us": 0,  # unused: every pair has an entry
        "hosts": hosts,
        "rtt_us": pairs,
        "drops": [{"ip": drop.ip, "rule": drop.rule} for drop in internet.drops],
        "ecn": [{"ip": path.ip, "rule": path.rule} for path in internet.ecn_paths],
        "bottlenecks": [
            {
                "from": bottleneck.from_host,
                "to": bottleneck.to_host,
                "rate_bps": bottleneck.rate_bps,
                "queue_packets": bottleneck.queue_packets,
                "queue_bytes": bottleneck.queue_bytes,
            }
            for bottleneck in internet.bottlenecks
        ],
    }
    file.write_text(json.dumps(config), encoding="utf-8")


def _sysctls(settings: dict[str, str]) -> None:
    for name, value in settings.items():
        file = Path("/proc/sys/net") / name
        try:
            file.write_text(value, encoding="ascii")
        except OSError as error:
            raise FirstflightError(f"the lab cannot set net/{name} in its own namespace: {error}") from error


def _ip(commands: Iterable[str], host: Host | None = None) -> None:
    lines = "".join(f"{command}\n" for command in commands)
    _run([program("ip", "iproute2"), "-batch", "-"], host, lines)


def _run(argv: Sequence[str], host: Host | None = None, text: str = "") -> None:
    done = subprocess.run(
        argv,
        input=text,
        text=True,
        capture_output=True,
        check=False,
        preexec_fn=entering(host.name) if host else None,
    )
    if done.returncode != 0:
        on_host = f" on {host.name}" if host else ""
        raise FirstflightError(
            f"the lab's network: `{' '.join(argv)}`{on_host} failed: {done.stderr.strip()}"
        )
