"""BIND on a separate loopback port, with zones for every kind of answer from a resolver."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.free_port import free_port
from tests.waiting import until

# A name per behaviour. No test sends to the addresses here.
ZONES = {
    "example.test": """
www      300 IN A 198.18.0.1
www      300 IN AAAA 2001:db8::1
www      300 IN HTTPS 1 . alpn="h3,h2" port=8443 (
         ipv4hint=198.18.0.1,198.18.0.2 ipv6hint=2001:db8::1 ech="AAz+DQAIAAAAAAAAAAA=" )
two      60 IN A 198.18.0.7
two      60 IN A 198.18.0.8
v6only   60 IN AAAA 2001:db8::6
nodata   60 IN TXT "no address here"
alias    120 IN CNAME hop.cdn.test.
dangling 120 IN CNAME nowhere.cdn.test.
loop1    60 IN CNAME loop2.cdn.test.
outside  60 IN CNAME www.elsewhere.invalid.
aliasmode 60 IN HTTPS 0 edge.cdn.test.
_under_score 60 IN A 198.18.0.9
xn--bcher-kva 60 IN A 198.18.0.10
"""
    + "".join(f"many 60 IN A 198.18.2.{i + 1}\n" for i in range(90)),
    "cdn.test": """
hop    30 IN CNAME edge
edge   20 IN A 198.18.1.1
edge   20 IN AAAA 2001:db8:1::1
loop2  60 IN CNAME loop1.example.test.
""",
}
_HEAD = "$TTL 60\n@ IN SOA ns.{zone}. hostmaster.{zone}. 1 3600 600 86400 60\n@ IN NS ns\nns IN A 127.0.0.1\n"


class Named:
    """A running `named` at 127.0.0.1 and ::1, port `port`; names outside its zones are refused."""

    def __init__(self, folder: Path, more: dict[str, str] | None = None) -> None:
        program = shutil.which("named", path="/usr/sbin:/usr/bin:/usr/local/sbin")
        assert program, "the tests need BIND: apt-get install bind9"
        self.program = program
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        zones = [
            # The file of this zone does not exist, so BIND answers SERVFAIL for it.
            'zone "broken.test" { type primary; file "missing"; };'
        ]
        for zone, records in (ZONES | (more or {})).items():
            (folder / zone).write_text(_HEAD.format(zone=zone) + records)
            zones.append(f'zone "{zone}" {{ type primary; file "{zone}"; }};')
        (folder / "named.conf").write_text(
            f"""options {{
    directory "{folder}"; pid-file none; session-keyfile none; managed-keys-directory "{folder}";
    listen-on port {self.port} {{ 127.0.0.1; }}; listen-on-v6 port {self.port} {{ ::1; }};
    recursion no; allow-query {{ any; }}; notify no; rrset-order {{ order fixed; }};
    dnssec-validation no; check-names primary ignore;
}};
controls {{ }};
"""
            + "\n".join(zones)
        )

    def start(self) -> None:
        """Start it and wait until it answers (TCP accepts)."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.program, "-g", "-n", "1", "-c", str(self.folder / "named.conf")], stdout=log, stderr=log
            )
        process, read = self._process, (self.folder / "log").read_text

        def runs() -> bool:
            assert process.poll() is None, read()
            return read().rstrip().endswith(" running")

        until(runs, read)

    def stop(self) -> None:
        """Kill the server immediately, as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
