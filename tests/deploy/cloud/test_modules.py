"""The OpenTofu modules of deploy/cloud as files, and the variables that they get from vantage_points.toml.

`make cloud-test` runs OpenTofu. Here a parser reads the modules: all references resolve, and the firewalls
open only the ports that a vantage point needs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hcl2
import pytest
import yaml

from deploy.cloud import machines
from firstflight.errors import UsageError
from orchestration.site import vantage_points
from tests.deploy.cloud.test_user_data import KEY

TREE = Path(__file__).parents[3]
CLOUD = TREE / "deploy" / "cloud"
VANTAGE = """
[[vantage]]
name = "los_angeles"
city = "Los Angeles"
queue = "la"
cloud = "hetzner"
region = "hil"
contact_url = "https://measurements.example.org/who?a=1"
scan_ports = "50000-50031"
"""
OWN = '[[vantage]]\nname = "own"\ncity = "O"\nqueue = "own"\n'
EVERYBODY = {"0.0.0.0/0", "::/0"}


def points(folder: Path, text: str) -> vantage_points.VantagePoints:
    """Return the vantage points in a file with that text."""
    path = folder / vantage_points.FILE
    path.write_text(text)
    return vantage_points.load(path)


def plain(value: Any) -> Any:
    """Return parsed HCL without the parser's own keys, its quotes and its ${} around expressions."""
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items() if not str(k).startswith("__")}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return re.sub(
            r'^"(.*)"$|^\$\{(.*)\}$', lambda m: m[1] if m[1] is not None else m[2], value, flags=re.S
        )
    return value


class Module:
    """One module, all its files read together."""

    def __init__(self, cloud: str) -> None:
        self.files = sorted((CLOUD / cloud).glob("*.tf"))
        self.text = "\n".join(path.read_text() for path in self.files)
        self.parsed: dict[str, list[Any]] = {}
        for path in self.files:
            for kind, blocks in plain(hcl2.loads(path.read_text())).items():
                self.parsed.setdefault(kind, []).extend(blocks)
        self.code = re.sub(r"(^|\s)#.*", "", self.text)

    def named(self, kind: str) -> dict[str, Any]:
        """Return a mapping of names (`var` or `type.name`) to a kind's blocks."""
        found: dict[str, Any] = {}
        for block in self.parsed.get(kind, ()):
            for name, body in block.items():
                if kind in ("resource", "data"):
                    found |= {f"{name}.{inner}": content for inner, content in body.items()}
                else:
                    found[name] = body
        return found

    def blocks(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (resource, block) for each block called `kind` in resources, also of dynamic ones."""
        for name, body in self.named("resource").items():
            for block in body.get(kind, ()):
                yield name, block
            for dynamic in body.get("dynamic", ()):
                for block in dynamic.get(kind, {}).get("content", ()):
                    yield name, block | {"each": dynamic[kind]["for_each"]}


@pytest.fixture(params=machines.clouds())
def module(request: pytest.FixtureRequest) -> Module:
    """Each module in turn."""
    return Module(request.param)


def test_all_cloud_modules_are_listed() -> None:
    assert machines.clouds() == ["aws", "digitalocean", "google", "hetzner", "openstack"]


def test_each_says_that_it_was_not_applied(module: Module) -> None:
    assert "Not applied here" in module.text.split("\n\n")[0]


def test_references_exist_and_are_used(module: Module) -> None:
    for kind, word in (("variable", "var"), ("locals", "local")):
        declared = set(module.named(kind))
        used = set(
            re.findall(rf"\b{word}\.(\w+)", re.sub(r"validation \{.*?\n  \}", "", module.code, flags=re.S))
        )
        assert used == declared, kind
    resources = set(module.named("resource"))
    data = {f"data.{name}" for name in module.named("data")}
    types = {name.split(".")[-2] for name in resources | data}
    used = set(re.findall(rf"(?:data\.)?\b(?:{'|'.join(types)})\.\w+", module.code))
    assert used <= resources | data
    assert {name for name in used if name.startswith("data.")} == data
    providers = set(plain(module.parsed["terraform"][0])["required_providers"][0])
    assert providers == {kind.split("_")[0] for kind in types}


def test_variables_are_described_and_those_of_the_inventory_are_declared_once(module: Module) -> None:
    declared = module.named("variable")
    for name, body in declared.items():
        assert body["description"] and body["type"], name
    shared = CLOUD / "vantage_points.tf"
    assert (module.files[0].parent / shared.name).resolve() == shared
    names = set(re.findall(r'^variable "(\w+)"', shared.read_text(), re.MULTILINE))
    assert names == {"machines", "ssh_from", "user_data"}
    assert not [name for name in names if "default" in declared[name]]


def test_variables_are_those_that_are_written(tmp_path: Path, module: Module) -> None:
    cloud = module.files[0].parent.name
    found = machines.variables(points(tmp_path, VANTAGE.replace("hetzner", cloud)), "", ["192.0.2.0/24"])
    # Other variables have a default or are the user's choice: machine types differ by cloud and year.
    assert set(found[cloud]) <= set(module.named("variable"))
    fields = set(re.findall(r"(\w+)\s+= (?:list\()?string", module.text.split("object({")[1].split("})")[0]))
    (machine,) = found[cloud]["machines"].values()
    assert set(machine) == fields


def test_firewalls_open_what_is_needed() -> None:
    """Port 22 from the own networks; the contact page, answers to probes and ICMP errors from everybody."""
    opened = {
        ("tcp", "22", "own"),
        ("tcp", "80", "everybody"),
        ("udp", "probes", "everybody"),
        ("icmp", "errors", "everybody"),
    }
    assert set(_of_hetzner()) == opened
    assert set(_of_aws()) == opened
    assert set(_of_openstack()) == opened
    assert set(_of_google()) == opened
    assert set(_of_digitalocean()) == opened


def _sources(*values: Any) -> str:
    named = {"var.ssh_from": "own", "local.ssh_v4": "own", "local.ssh_v6": "own", "each.value[1]": "own"}
    named["local.everybody"] = "everybody"
    flat = [source for value in values for source in (value if isinstance(value, list) else [value])]
    found = {
        named.get(source, "everybody" if source in EVERYBODY else source)
        for source in flat
        if source is not None
    }
    assert len(found) == 1, found
    return str(found.pop())


def _of_hetzner() -> Iterator[tuple[str, str, str]]:
    module = Module("hetzner")
    assert set(module.named("locals")["everybody"]) == EVERYBODY
    for _, rule in module.blocks("rule"):
        assert rule["direction"] == "in"
        port = rule.get("port", "errors")
        if port == "rule.value":
            assert rule["each"] == "each.value.udp_ports"
            port = "probes"
        yield rule["protocol"], port, _sources(rule["source_ips"])


def _of_aws() -> Iterator[tuple[str, str, str]]:
    module = Module("aws")
    values = module.named("locals")
    assert values["everybody"] in EVERYBODY
    # Destination unreachable, packet too big, time exceeded (RFC 792, RFC 4443).
    assert set(values["icmp_v4"].values()) == {3, 11} and set(values["icmp_v6"].values()) == {1, 2, 3}
    for _, rule in module.blocks("ingress"):
        protocol, first, last = rule["protocol"].removesuffix("v6"), rule["from_port"], rule["to_port"]
        if protocol == "icmp":
            assert rule["each"] in ("local.icmp_v4", "local.icmp_v6") and last in (-1, "-1")
            port = "errors"
        elif "each" in rule:
            assert rule["each"] == "each.value.udp_ports" and "[0]" in first and "[1]" in last
            port = "probes"
        else:
            assert first == last
            port = str(first)
        yield protocol, port, _sources(rule.get("cidr_blocks"), rule.get("ipv6_cidr_blocks"))


def _of_openstack() -> Iterator[tuple[str, str, str]]:
    module = Module("openstack")
    values = module.named("locals")
    assert set(values["icmp"].values()) == {3, 11}
    for name, rule in module.named("resource").items():
        if not name.startswith("openstack_networking_secgroup_rule_v2"):
            continue
        assert rule["direction"] == "ingress"
        port = str(rule["port_range_min"])
        if rule["protocol"] == "icmp":
            # No code: each of the type's.
            assert port == "local.icmp[each.value[1]]" and rule["port_range_max"] == 0
            port = "errors"
        elif rule["protocol"] == "udp":
            assert rule["for_each"] == "local.probes" and "machine.udp_ports" in values["probes"]
            port = "probes"
        else:
            assert rule["port_range_max"] == rule["port_range_min"]
        if port == "22":
            assert "local.ssh_v4" in rule["for_each"]
        yield rule["protocol"], port, _sources(rule["remote_ip_prefix"])


def _of_google() -> Iterator[tuple[str, str, str]]:
    module = Module("google")
    assert module.named("locals")["everybody"] in EVERYBODY
    for name, rule in module.named("resource").items():
        if not name.startswith("google_compute_firewall."):
            continue
        assert rule["direction"] == "INGRESS"
        (allowed,) = rule["allow"]
        ports = allowed.get("ports", ["errors"])
        if ports == "each.value.udp_ports":
            # Of the machine alone: others have other ports.
            assert rule["target_tags"] == ["each.key"] and rule["for_each"] == "var.machines"
            ports = ["probes"]
        for port in ports:
            yield allowed["protocol"], port, _sources(rule["source_ranges"])


def _of_digitalocean() -> Iterator[tuple[str, str, str]]:
    module = Module("digitalocean")
    assert set(module.named("locals")["everybody"]) == EVERYBODY
    out = {outbound["protocol"] for _, outbound in module.blocks("outbound_rule")}
    assert out == {"tcp", "udp", "icmp"}, "without rules nothing leaves"
    for _, rule in module.blocks("inbound_rule"):
        port = rule.get("port_range", "errors")
        if port == "inbound_rule.value":
            assert rule["each"] == "each.value.udp_ports"
            port = "probes"
        yield rule["protocol"], port, _sources(rule["source_addresses"])


def _user_data(body: dict[str, Any]) -> str | None:
    metadata = body.get("metadata")
    return metadata.get("user-data") if isinstance(metadata, dict) else None


def test_each_machine_gets_the_user_data_its_region_and_its_name(module: Module) -> None:
    resources = module.named("resource")
    # Google has it among other metadata.
    given = [
        (key, body)
        for body in resources.values()
        for key, value in (("user_data", body.get("user_data")), ("metadata", _user_data(body)))
        if value == "var.user_data"
    ]
    assert len(given) == 1
    # A changed key must not replace a machine.
    ((key, server),) = given
    assert key in server["lifecycle"][0]["ignore_changes"]
    names = [body for body in resources.values() if "reverse_dns" in str(body)]
    assert names and all(body["for_each"] in ("var.machines", "local.named") for body in names)
    (addresses,) = module.named("output").values()
    assert "reverse_dns" in str(addresses["value"])
    for name, body in resources.items():
        if name.startswith(("aws_", "openstack_")):
            assert re.fullmatch(
                r"each\.key|(each\.value|var\.machines\[[^]]+(\[0\])?\])\.region", body["region"]
            ), name
    assert any("each.value.region" in str(body) for body in resources.values())


def test_the_inventory_is_the_one_truth(tmp_path: Path) -> None:
    found = machines.variables(
        points(tmp_path, VANTAGE + OWN), "#cloud-config\n", ["192.0.2.0/24", "2001:db8::/32"]
    )
    assert found == {
        "hetzner": {
            "machines": {
                "los-angeles": {
                    "region": "hil",
                    "reverse_dns": "los-angeles.measurements.example.org",
                    "udp_ports": ["50000-50031", "61064-61127"],
                }
            },
            "ssh_from": ["192.0.2.0/24", "2001:db8::/32"],
            "user_data": "#cloud-config\n",
        }
    }


@pytest.mark.parametrize(
    ("text", "ssh_from", "shown"),
    [
        (VANTAGE.replace('region = "hil"\n', ""), "192.0.2.0/24", "los_angeles has a cloud and no region"),
        (re.sub("contact_url.*\n", "", VANTAGE), "192.0.2.0/24", "has a cloud and no contact_url"),
        (VANTAGE.replace("measurements.example.org", "192.0.2.1"), "192.0.2.0/24", "not an address"),
        (VANTAGE.replace("measurements.example.org", "[2001:db8::1]"), "192.0.2.0/24", "not an address"),
        (VANTAGE, "192.0.2.1/24", "without host bits"),
        (VANTAGE, "office", "is no network"),
        (VANTAGE, "0.0.0.0/0", "allows everybody"),
        (VANTAGE, "::/0", "allows everybody"),
    ],
)
def test_faults_are_one_sentence(tmp_path: Path, text: str, ssh_from: str, shown: str) -> None:
    declared = points(tmp_path, text)
    with pytest.raises(UsageError, match=re.escape(shown)) as caught:
        machines.variables(declared, "", [ssh_from])
    assert "\n" not in str(caught.value)


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the program on the site in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "deploy.cloud.machines", *options],
        cwd=TREE,
        env={**os.environ, "FIRSTFLIGHT_SITE": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_writes_a_file_per_cloud(tmp_path: Path) -> None:
    other = VANTAGE.replace("los_angeles", "ohio").replace('"la"', '"o"').replace("hetzner", "aws")
    points(tmp_path, VANTAGE + other + OWN)
    key = tmp_path / "key.pub"
    key.write_text(f"{KEY}\n")
    given = ("--key", str(key), "--ssh-from", "192.0.2.0/24")
    done = run(tmp_path, *given, str(tmp_path / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "aws.tfvars.json",
        "hetzner.tfvars.json",
    ]
    written = json.loads((tmp_path / "out" / "aws.tfvars.json").read_text())
    assert list(written["machines"]) == ["ohio"]
    assert yaml.safe_load(written["user_data"])["users"][0]["ssh_authorized_keys"] == [KEY]
    points(tmp_path, OWN)
    done = run(tmp_path, *given, str(tmp_path / "none"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "no vantage point" in done.stderr
    done = run(
        tmp_path, "--key", str(tmp_path / "no.pub"), "--ssh-from", "192.0.2.0/24", str(tmp_path / "none")
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "no.pub" in done.stderr
    assert not (tmp_path / "none").exists()


def test_the_validated_provider_is_the_one_that_machines_get() -> None:
    (built,) = re.findall(
        r"^OPENSTACK_PROVIDER := \S+@v(\S+)$", (TREE / "Makefile").read_text(), re.MULTILINE
    )
    module = (CLOUD / "openstack" / "main.tf").read_text()
    assert re.findall(r'^      version = "(.*?)"', module, re.MULTILINE) == [built]
