"""Stores for tests of the report: a run as a campaign writes it, loaded by the real loader, and odd runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firstflight.run.run import Run
from firstflight.settings import load as load_settings
from orchestration.local.manifest import stage_entries
from store.load import loader
from tests.store.rows import DAY_NS, probe, write

VANTAGES = {"hamburg": "Hamburg", "los_angeles": "Los Angeles", "sao_paulo": "São Paulo"}
REPETITIONS = 2
HOSTILE = "</td><script>document.title='caught'</script>\u202e\u0007 $\\frac{"
SETTINGS = """
[campaign]
name = "small"
contact = "noc@example.org"
repetitions = 2
[targets]
source = "file"
file = "names.txt"
[as_data]
rib = "file"
files = ["rib.mrt"]
[probe]
optout = ["gone.txt"]
[watch]
owned = ["owned.example"]
ownership = "The Owner Company agreed"
[backoff]
control = ["control.example"]
[store]
url = "chdb:{store}"
""" + "".join(f'[[vantage]]\nname = "{name}"\ncity = "{city}"\n' for name, city in VANTAGES.items())
# CDN: number of names, number of names with instant ACK, AS, RTT from the three vantage points and median
# delta in us
CDNS: dict[str, tuple[int, int, int, tuple[int, int, int], int]] = {
    "Akamai": (25, 8, 20940, (8_000, 6_500, 14_000), 21_000),
    "Amazon": (30, 12, 16509, (12_500, 18_000, 28_000), 6_400),
    "Cloudflare": (40, 40, 13335, (3_000, 1_600, 2_300), 3_200),
    "Fastly": (12, 0, 54113, (4_000, 7_000, 14_000), 0),
    "Google": (15, 2, 15169, (9_000, 7_000, 21_000), 40_000),
    "Others": (20, 5, 64500, (24_000, 95_000, 205_000), 11_000),
}


def answers(vantage: str, repetition: int, run: str) -> list[dict[str, Any]]:
    """Return the probes from a vantage point and repetition, with all outcomes, from a fixed seed."""
    place = list(VANTAGES).index(vantage)
    drawn = random.Random(f"{vantage} {repetition}")
    rows: list[dict[str, Any]] = []

    def add(outcome: str, cdn: str | None, name: str, **changes: Any) -> None:
        sent = DAY_NS + (repetition - 1) * 86_400 * 10**9 + len(rows) * 5_000_000
        common = {"run": run, "vantage": vantage, "repetition": repetition, "cdn": cdn, "domain": name}
        asn = CDNS[cdn][2] if cdn in CDNS else None
        sent_at = {} if outcome == "blocked" else {"sent_at": sent}
        rows.append(probe(outcome, rank=len(rows) + 1, asn=asn, **common, **sent_at, **changes))

    for cdn, (names, instant, _, rtts, delta) in CDNS.items():
        for number in range(names):
            rtt = int(rtts[place] * drawn.uniform(1, 1.3))
            name = f"{cdn.lower()}{number}.example"
            if number < instant and not (cdn == "Amazon" and number == 0 and repetition == 2):
                later = rtt + max(1, int(delta * drawn.lognormvariate(0, 0.15)))
                size = 1_200 if cdn == "Cloudflare" else 60
                fields = {"ack_delay_raw": drawn.randrange(0, 9), "ack_datagram_bytes": size}
                add("iack", cdn, name, ack_us=rtt, sh_us=later, **fields)
            else:
                late = rtt + drawn.randrange(200, 9_000)
                delay = drawn.randrange(0, 4_000)
                add("coalesced", cdn, name, ack_us=late, sh_us=late, ack_delay_raw=delay)
    add("iack", "Google", "slow.example", ack_us=9_000, sh_us=31_000, attempts=2)
    add("sh_first", "Others", "first.example", ack_us=30_000, sh_us=25_000)
    add("coalesced", "Others", "mute.example", ack_us=20_000, sh_us=20_000, ack_delay_raw=None)
    add("iack", "Others", "six.example", ip="2001:db8:48::1")
    add("iack", None, "nowhere.example")
    add("closed", "Others", "shut.example", close_code=0x128, close_reason=HOSTILE)
    add("refused", "Others", "deaf.example", icmp_type=3, icmp_code=3)
    add("malformed", "Others", "odd.example", detail="Initial packet 0: input ends too early")
    add("timeout", "Others", "gone.example")
    add("blocked", "Others", "blocked.example", detail="name on the opt-out list")
    return rows


def campaign(folder: Path, store: Path, *, without: Sequence[tuple[str, int]] = ()) -> Run:
    """Load a run of `VANTAGES` x `REPETITIONS` in `folder` (FIRSTFLIGHT_RUNS is folder/runs) into `store`.

    The (vantage point, repetition) pairs in `without` failed.
    """
    for name in ("names.txt", "rib.mrt", "gone.txt"):
        (folder / name).write_text("", encoding="utf-8")
    config = folder / "small.toml"
    config.write_text(SETTINGS.replace("{store}", str(store)), encoding="utf-8")
    run = Run.create(*load_settings(config))
    for repetition in range(1, REPETITIONS + 1):
        for vantage in VANTAGES:
            _probe(run, vantage, repetition, fails=(vantage, repetition) in without)
    run.write_manifest(run.manifest | {"state": "done", "stages": stage_entries(run)})
    refused = [r for r in loader.load_run_folder(run, f"chdb:{store}") if isinstance(r, loader.RefusedFile)]
    assert not refused, refused
    return run


def _probe(run: Run, vantage: str, repetition: int, *, fails: bool) -> None:
    try:
        with run.stage("probe", run.key(vantage, repetition)) as report:
            if fails:
                raise OSError("the cable was pulled")
            rows = answers(vantage, repetition, run.id)
            report.rows_in = report.rows_out = len(rows)
            report.facts = {"template_sha256": "5d" * 32, "answer_window_ms": 3000, "settle_ms": 100}
            run.add_output(report, write(run.layout.quic_probe(run.key(vantage, repetition)), rows))
    except OSError:
        assert fails


def odd_rows() -> dict[str, list[dict[str, Any]]]:
    """Return unusual case -> rows in a record file that is loaded without its run."""
    both = [probe("iack"), probe("coalesced", domain="b.example")]
    other = {"domain": "b.example"}
    names = (HOSTILE, "_x", "$x$")
    outcomes = ("coalesced", "iack", "iack")
    return {
        "one CDN, one vantage point": both,
        "nothing instant": [probe("coalesced"), probe("sh_first", **other)],
        "nothing answered": [probe("timeout"), probe("refused", **other)],
        "nothing sent": [probe("blocked"), probe("blocked", **other)],
        "no CDN, or IPv6": [{**both[0], "asn": None, "cdn": None}, {**both[1], "ip": "2001:db8:48::1"}],
        "no ACK Delay": [{**row, "ack_delay_raw": None, "ack_delay_us": None} for row in both],
        "extreme times": [
            probe(ack_us=ack, sh_us=sh, domain=f"{ack}.example")
            for ack, sh in ((20, 20), (0, 9), (5, 2_900_000), (2_999_999, 3_000_000))
        ],
        "many CDNs": [
            probe(outcomes[n % 3], cdn=f"Net {n % 12:02}", domain=f"n{n}.example") for n in range(90)
        ],
        "hostile names": [{**row, "cdn": cdn, "vantage": HOSTILE} for row in both for cdn in names],
    }
