"""Tables of the costs for a campaign's stages, as measured and scaled to another number of names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.campaigns.stage_costs import StageCost

MILLION = 1_000_000
LIMIT_CPU_S = 260.0
LIMIT_MB = 1000.0
LIMIT_GB = 2.0
LIMIT_CAPTURE_GB = 1.5
RESOLVE, PROBE, DISSECT, LOAD = "resolve", "probe", "dissect", "load"
PROBER, TCPDUMP = "prober", "tcpdump"
# CPU seconds per million names, by the keys that `parts` returns.
GOALS = {
    RESOLVE: 40.0,
    PROBER: 50.0,
    "rest of probe": 25.0,
    DISSECT: 14.0,
    "targets, as_data, tcpdump, load, report": 150.0,
}
# The input of this stage, the routing table, does not depend on the number of names.
FIXED = frozenset({"as_data"})


@dataclass(frozen=True)
class StageRow:
    """A stage's cost: CPU seconds by program, MB (10^6 bytes) of the largest process, MB on disk.

    `capture_mb`: the part of `disk_mb` that captures use.
    """

    stage: str
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    peak_mb: float = 0.0
    largest: str = ""
    wall_s: float = 0.0
    disk_mb: float = 0.0
    capture_mb: float = 0.0

    @property
    def all_cpu_s(self) -> float:
        """The programs' total CPU seconds."""
        return sum(self.cpu_s.values())


def row_of(stage: str, cost: StageCost, disk_bytes: int, capture_bytes: int = 0) -> StageRow:
    """Return the row for a stage's cost."""
    return StageRow(
        stage,
        dict(cost.cpu_s),
        cost.peak_bytes / 1e6,
        cost.peak_program,
        cost.wall_s,
        disk_bytes / 1e6,
        capture_bytes / 1e6,
    )


def scaled(
    few: Sequence[StageRow], many: Sequence[StageRow], names: tuple[int, int], wanted: int
) -> list[StageRow]:
    """Return the rows of `many` scaled to `wanted` names by a straight line through both measurements.

    `names`: the number of names in `few` and in `many`. A cost that falls with more names counts as constant.
    """
    before = {row.stage: row for row in few}
    factor = (wanted - names[1]) / (names[1] - names[0])
    found = []
    for row in many:
        first = before.get(row.stage, StageRow(row.stage))
        growth = 0.0 if row.stage in FIXED else factor

        def line(low: float, high: float, growth: float = growth) -> float:
            return high + max(0.0, high - low) * growth

        found.append(
            StageRow(
                row.stage,
                {name: line(first.cpu_s.get(name, 0.0), used) for name, used in row.cpu_s.items()},
                line(first.peak_mb, row.peak_mb),
                row.largest,
                line(first.wall_s, row.wall_s),
                line(first.disk_mb, row.disk_mb),
                line(first.capture_mb, row.capture_mb),
            )
        )
    return found


def table(rows: Sequence[StageRow]) -> Iterator[str]:
    """Yield the lines of a table of these rows, with a sum."""
    columns = f"{'CPU s':>9}{'peak MB':>9}{'wall s':>9}{'disk MB':>9}"
    yield f"  {'stage':9}{columns}  CPU s by program; largest process"
    for row in rows:
        shares = sorted(row.cpu_s.items(), key=lambda item: -item[1])
        split = ", ".join(f"{name} {used:.2f}" for name, used in shares if used >= 0.005)
        yield (
            f"  {row.stage:9}{row.all_cpu_s:9.2f}{row.peak_mb:9.1f}{row.wall_s:9.1f}{row.disk_mb:9.1f}"
            f"  {split}; {row.largest}"
        )
    yield (
        f"  {'sum':9}{sum(row.all_cpu_s for row in rows):9.2f}{max(row.peak_mb for row in rows):9.1f}"
        f"{'':9}{sum(row.disk_mb for row in rows):9.1f}  (peak: the largest; stages overlap in time)"
    )


def parts(rows: Sequence[StageRow]) -> dict[str, float]:
    """Return the CPU seconds for each of GOALS.

    Only the total contains the process that starts the stages.
    """
    used = {row.stage: row.all_cpu_s for row in rows}
    probe = next((row.cpu_s for row in rows if row.stage == PROBE), {})
    prober, tcpdump = probe.get(PROBER, 0.0), probe.get(TCPDUMP, 0.0)
    others = (used.get(stage, 0.0) for stage in ("targets", "as_data", LOAD, "report"))
    found = (
        used.get(RESOLVE, 0.0),
        prober,
        used.get(PROBE, 0.0) - prober - tcpdump,
        used.get(DISSECT, 0.0),
        sum(others) + tcpdump,
    )
    return dict(zip(GOALS, found, strict=True))


@dataclass(frozen=True)
class CostVerdict:
    """The cost for a campaign with a million names, and whether it is within the limits and goals.

    `peak_mb`: of the largest process, as measured. Stages work in blocks, so memory hardly grows with the
    number of names; a straight line through two campaigns would be far too high.
    """

    cpu_s: float
    parts: Mapping[str, float]
    peak_mb: float
    disk_gb: float
    capture_gb: float

    @property
    def within_limits(self) -> bool:
        """Whether no limit and no goal is exceeded."""
        return (
            self.cpu_s <= LIMIT_CPU_S
            and all(self.parts[part] <= goal for part, goal in GOALS.items())
            and self.peak_mb <= LIMIT_MB
            and self.disk_gb <= LIMIT_GB
            and self.capture_gb <= LIMIT_CAPTURE_GB
        )

    def __str__(self) -> str:
        of_parts = "; ".join(
            f"{part} {self.parts[part]:.1f} ({'met' if self.parts[part] <= goal else 'missed'}: {goal:.0f})"
            for part, goal in GOALS.items()
        )
        return (
            f"goals, CPU s per million names: {of_parts}\n"
            f"total: {self.cpu_s:.0f} CPU s per million names (limit {LIMIT_CPU_S:.0f}); largest process as "
            f"measured {self.peak_mb:.0f} MB anonymous (limit {LIMIT_MB:,.0f}); {self.disk_gb:.2f} GB on "
            f"disk (limit {LIMIT_GB:.0f}), {self.capture_gb:.2f} of it captures (limit {LIMIT_CAPTURE_GB})"
        )


def verdict(million: Sequence[StageRow], measured: Sequence[StageRow]) -> CostVerdict:
    """Return the verdict: costs by rows scaled to a million names, memory as measured."""
    return CostVerdict(
        sum(row.all_cpu_s for row in million),
        parts(million),
        max((row.peak_mb for row in measured), default=0.0),
        sum(row.disk_mb for row in million) / 1000,
        sum(row.capture_mb for row in million) / 1000,
    )
