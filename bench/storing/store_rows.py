"""Make runs over many names, as folders of record files: months apart, with the answers of the lab.

Every name behaves like a name of the lab (lab_answers.py), so the mix of outcomes, delays, address
families, changes between runs and round-trip times is the same as in the lab. Large columns are as random as
in real runs: connection IDs of 8 bytes (client) and 20 bytes (server), transmit timestamps, source ports,
arrival times.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.storing import lab_answers
from firstflight import settings
from firstflight.run.run import Run
from firstflight.system import files
from lab.declared import internet
from lab.declared.internet import Internet
from schemas import records

VANTAGES = ("hamburg", "los_angeles", "sao_paulo", "hong_kong")
_FIRST_RUN = datetime(2026, 1, 7, 6, 0, tzinfo=UTC)
_RATE = 500  # probes per second
_TOOL, _RULES = "0.1.0+0123456789ab", "0123456789ab"

_CONSONANTS = [*"bcdfghjklmnprstvwxz", "st", "ch", "tr", "sh"]
_VOWELS = [*"aeiou", "ai", "oo", "ea"]
_OTHER_TLDS = ("net", "org", "io", "de", "ru", "com.br", "co.uk", "fr", "in", "app", "dev", "info")
_TLDS = ["com"] * 50 + 4 * [*_OTHER_TLDS]


@dataclass(frozen=True)
class LabCopies:
    """`copies` of each name and address of the lab over `runs` runs; `seed` determines all random values.

    The runs are `days_apart` days apart, and their `repetitions` one day.
    """

    copies: int
    runs: int
    seed: int = 1
    days_apart: int = 30
    repetitions: int = 2

    @cached_property
    def lab(self) -> Internet:
        """The lab."""
        return internet.load()

    @cached_property
    def answers(self) -> lab_answers.LabAnswers:
        """The answers of the lab's endpoints."""
        return lab_answers.read(self.lab)

    @property
    def names(self) -> int:
        """The number of names."""
        return self.copies * (int(self.answers.name.max()) + 1)

    @property
    def rows(self) -> int:
        """The number of probes per vantage point and repetition."""
        return self.copies * len(self.endpoints_in(1))

    def endpoints_in(self, epoch: int) -> NDArray[np.int64]:
        """Return the indices of the lab's endpoints that DNS returns in an epoch."""
        return np.flatnonzero([epoch in epochs for epochs in self.answers.epochs])

    @cached_property
    def domains(self) -> pa.Array:
        """Distinct names of syllables, 5 to 25 characters, as in Tranco."""
        draw = random.Random(self.seed)
        domain_names: dict[str, None] = {}
        while len(domain_names) < self.names:
            syllables = (draw.choice(_CONSONANTS) + draw.choice(_VOWELS) for _ in range(draw.randint(2, 5)))
            domain_names["".join(syllables) + "." + draw.choice(_TLDS)] = None
        return pa.array(domain_names)

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """Rank of each name in the list, from 1."""
        return np.random.default_rng([self.seed, 1]).permutation(self.names) + 1

    @cached_property
    def _slowness(self) -> NDArray[np.float64]:
        """Factors between the copies' delays and the lab's, since no two names have the same server."""
        return np.random.default_rng([self.seed, 2]).lognormal(0, 0.1, self.copies)

    def probes(self, run: str, number: int, vantage: str, repetition: int) -> pa.Table:
        """The records of a probe stage of run `number` (from 0), in the order of probing."""
        began = self.began(number) + timedelta(days=repetition - 1)
        at = _Stage(run, number, vantage, repetition, int(began.timestamp()) * 10**9)
        rng = np.random.default_rng([self.seed, number, repetition, VANTAGES.index(vantage)])
        # Each epoch of the lab covers several months, so that a name that changes does not change back.
        chosen = self.endpoints_in(number * self.lab.epochs // self.runs + 1)
        endpoint = np.tile(chosen, self.copies)
        copy = np.repeat(np.arange(self.copies), len(chosen))
        order = rng.permutation(len(endpoint))
        endpoint, copy = endpoint[order], copy[order]
        columns = self.answers.common.take(pa.array(endpoint))
        made = self._made(at, endpoint, copy, rng, columns)
        schema = records.load("quic_probe").arrow_schema()
        nulls = {field.name: pa.nulls(len(endpoint), field.type) for field in schema}
        filled = nulls | dict(zip(columns.column_names, columns.columns, strict=True)) | made
        arrays = [filled[field.name].cast(field.type) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _made(
        self,
        at: _Stage,
        endpoint: NDArray[np.int64],
        copy: NDArray[np.int64],
        rng: np.random.Generator,
        common: pa.Table,
    ) -> dict[str, Any]:
        """The columns that differ between probes."""
        n = len(endpoint)
        answers = self.answers
        name = answers.name[endpoint] * self.copies + copy
        arrival = answers.rtt_us(self.lab, at.vantage)[endpoint] + rng.exponential(120, n)
        ack = arrival + answers.ack_after[endpoint] * self._slowness[copy]
        sh = arrival + answers.sh_after[endpoint] * self._slowness[copy]
        # Datagrams have different path delays; packets in a datagram have the same time.
        is_separate = answers.sh_after[endpoint] != answers.ack_after[endpoint]
        sh += np.where(is_separate, rng.exponential(20, n), 0)
        late = np.where(rng.random(n) < 0.7, 0, rng.integers(20, 900, n))
        behind = answers.handshake_after[endpoint] + late
        ack_us, sh_us = _observed(ack), _observed(sh)
        retried = common["retried"].combine_chunks()
        sent = pc.greater(common["attempts"], 0).combine_chunks()
        heard = pc.and_(sent, pc.greater(common["bytes_received"], 0)).combine_chunks()
        delay_raw = pc.add(common["ack_delay_raw"], pa.array(rng.integers(0, 40, n)))
        received, bytes_sent = common["bytes_received"], common["bytes_sent"]
        ratio = pc.divide(received.cast(pa.float64()), bytes_sent.cast(pa.float64())).cast(pa.float32())
        stamps = at.began_ns + np.arange(n) * (10**9 // _RATE) + rng.integers(0, 10**6, n)

        def where(condition: pa.Array, values: Any) -> pa.Array:
            return pc.if_else(condition, values, None)

        return {
            "run": pa.repeat(at.run, n),
            "vantage": pa.repeat(at.vantage, n),
            "repetition": pa.repeat(at.repetition, n),
            "list_id": pa.repeat(_list_id(at.number), n),
            "rank": pa.array(self.ranks[name]),
            "domain": self.domains.take(pa.array(name)),
            "ip": self._ips.take(pa.array(answers.address[endpoint] * self.copies + copy)),
            "resolver": pa.repeat("198.51.100.53", n),
            "sent_at": where(sent, pa.array(stamps)),
            "src_ip": where(sent, pa.scalar(f"198.51.100.{10 + VANTAGES.index(at.vantage)}")),
            "src_port": where(sent, pa.array(rng.integers(61_000, 61_064, n))),
            "client_cid": where(sent, _hex(rng, n, 8)),
            "ack_us": ack_us,
            "sh_us": sh_us,
            "ack_to_sh_us": pc.subtract(sh_us, ack_us),
            "sh_to_handshake_us": _observed(behind),
            "retry_us": where(retried, pa.array(arrival.astype(np.int64))),
            "ack_delay_raw": delay_raw,
            "ack_delay_us": pc.multiply(delay_raw, 8),
            "amplification": where(pc.and_(sent, pc.invert(retried)), ratio),
            "after_close": pc.add(common["after_close"], _or_zero(heard, rng.integers(0, 3, n))),
            "since_last_probe_s": pa.array(rng.normal(86_400, 60, n), mask=np.full(n, at.repetition == 1)),
            "server_cid": where(heard, _hex(rng, n, 20)),
            "tool_version": pa.repeat(_TOOL, n),
            "host": pa.repeat("vm", n),
            "clock_offset_us": pa.repeat(0, n),
            "ruleset": pa.repeat(_RULES, n),
            "capture_file": where(
                sent, pa.scalar(f"{at.run}/{at.vantage}/{at.repetition}/capture/probe.pcap")
            ),
        }

    @cached_property
    def _ips(self) -> pa.Array:
        """An address for each copy of each address of the lab, from 10.0.0.0/8 and 2001:db8::/32."""
        lab_ips = dict.fromkeys(endpoint.ip for endpoint in self.answers.endpoints)
        made = []
        for place, ip in enumerate(lab_ips):
            numbers = range(place * self.copies, (place + 1) * self.copies)
            if ":" in ip:
                made += [f"2001:db8::{n >> 16:x}:{n & 0xFFFF:x}" for n in numbers]
            else:
                made += [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in numbers]
        return pa.array(made)

    def began(self, number: int) -> datetime:
        """The start time of run `number`."""
        return _FIRST_RUN + number * timedelta(days=self.days_apart)

    def targets(self, number: int) -> pa.Table:
        """A run's target list."""
        order = np.argsort(self.ranks)
        columns = {
            "rank": pa.array(self.ranks[order]),
            "domain": self.domains.take(pa.array(order)),
            "list_id": pa.repeat(_list_id(number), self.names),
        }
        schema = records.load("target").arrow_schema()
        nulls = {field.name: pa.nulls(self.names, field.type) for field in schema}
        arrays = [(nulls | columns)[field.name].cast(field.type) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class _Stage:
    run: str
    number: int
    vantage: str
    repetition: int
    began_ns: int


def write_runs(copies: LabCopies, root: Path) -> Iterator[Run]:
    """Write the folders of all runs, oldest first, with all files that the loader reads."""
    for number in range(copies.runs):
        began = copies.began(number)
        run = Run(root / f"{began:%Y%m%dT%H%M%SZ}-{number:06x}")
        run.path.mkdir(parents=True)
        given = {
            "targets": {"source": "file", "file": "names.csv"},
            "as_data": {"rib": "file", "files": ["rib.mrt"]},
            "campaign": {"name": "bench", "contact": "noc@example.org", "repetitions": copies.repetitions},
            "vantage": [{"name": name} for name in VANTAGES],
        }
        checked = settings.check(given, "bench", run.path, check_files=False)
        files.write_text(run.path / "settings.json", checked.model_dump_json())
        run.write_manifest(
            {
                "id": run.id,
                "name": "bench",
                "state": "done",
                "started_at": began.isoformat(),
                "tool_version": _TOOL,
                "seed": copies.seed,
                "repetitions": copies.repetitions,
            }
        )
        _write(copies.targets(number), run.layout.targets)
        for repetition in range(1, copies.repetitions + 1):
            for vantage in VANTAGES:
                probes = copies.probes(run.id, number, vantage, repetition)
                _write(probes, run.layout.quic_probe(run.key(vantage, repetition)))
        yield run


def _write(table: pa.Table, path: Path) -> None:
    """Write a record file as the stages do."""
    path.parent.mkdir(parents=True)
    pq.write_table(table, path, compression="zstd")


def _list_id(number: int) -> str:
    return f"{number:05X}"


def _observed(times: NDArray[np.float64]) -> pa.Array:
    """Return floored microseconds; NaN becomes null."""
    return pa.array(np.floor(np.nan_to_num(times)).astype(np.int64), mask=np.isnan(times))


def _or_zero(condition: pa.Array, values: NDArray[np.int64]) -> pa.Array:
    return pc.if_else(condition, pa.array(values), 0)


def _hex(rng: np.random.Generator, count: int, size: int) -> pa.Array:
    """Return `count` uniform byte strings of `size` bytes, in hex."""
    offsets = np.arange(count + 1, dtype=np.int32) * (2 * size)
    text = rng.bytes(count * size).hex().encode()
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def main() -> int:
    """Write runs into a folder; print each run's id and number of probes.

    This is a separate process so that the bench itself uses little memory.
    """
    parser = argparse.ArgumentParser(prog="bench.storing.store_rows")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--days-apart", type=int, default=30)
    parser.add_argument("--repetitions", type=int, default=2)
    options = parser.parse_args()
    stages = options.runs * options.repetitions * len(VANTAGES)
    number = max(1, round(options.rows / stages / len(LabCopies(1, 1).endpoints_in(1))))
    copies = LabCopies(number, options.runs, days_apart=options.days_apart, repetitions=options.repetitions)
    for run in write_runs(copies, options.folder):
        print(run.id, copies.rows * options.repetitions * len(VANTAGES), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
