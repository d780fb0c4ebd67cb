"""Makes the page of an experiment: one HTML file that needs no server, network or script."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from firstflight.system import files
from reports import wording
from reports.figures import compared as figures
from reports.figures import gridded as map_figures
from reports.numbers import compared, gridded
from reports.numbers.compared import ComparisonPanel
from reports.numbers.gridded import Maps
from reports.page import html
from testbed import repeat_commands, summary
from testbed.computed import numeric_page
from testbed.computed.better_answer_page import Derived
from testbed.computed.numeric import Numeric
from testbed.experiment import conditions
from testbed.experiment.conditions import Condition
from testbed.experiment.experiment import Experiment
from testbed.experiment_files import find
from testbed.measures import Results
from testbed.summary import SummaryPage
from testbed.trials.captures import block_files
from testbed.trials.trial_row import TrialRow

_REASONS = 40
"""Maximum number of lines in a table of reasons."""


@dataclass(frozen=True)
class OutcomeCount:
    """An outcome and detail, with the number of trials and cells."""

    outcome: str
    detail: str
    trials: int
    cells: int


@dataclass(frozen=True)
class ReportContent:
    """A page's content. `outcomes`: trials by outcome, including trials that never started.

    `programs`: side, stack, version, build and trials. `hashes`: SHA-256 by block, as `verify` prints it.
    """

    name: str
    summary: SummaryPage
    panels: Sequence[ComparisonPanel]
    data: Sequence[dict[str, Any]]
    repeat: Sequence[str]
    conditions: Sequence[Condition] = ()
    outcomes: Mapping[str, int] | None = None
    reasons: Sequence[OutcomeCount] = ()
    reasons_left: int = 0
    cells: tuple[int, int] = (0, 0)
    programs: Sequence[tuple[str, str, str, str, int]] = ()
    facts: Sequence[tuple[str, str]] = ()
    hashes: Mapping[str, str] | None = None
    maps: Maps | None = None

    @property
    def met(self) -> int:
        """Return the number of met expectations."""
        return sum(check.met for check in self.summary.checks)


def of_trials(
    name: str,
    experiment: Experiment,
    folder: Path,
    rows: Sequence[TrialRow],
    results: Results,
    scenario: Path | None,
) -> ReportContent:
    """Return the content of an experiment's page. `results` are the measure's results of `rows`.

    `folder` is the experiment's; `scenario`: the experiment's file, if it is not one of the testbed's.
    """
    cells = experiment.cells()
    argument = shlex.quote(name) if scenario is None else f"--scenario {shlex.quote(str(scenario))}"
    repetitions = max([row["repetition"] for row in rows], default=experiment.repetitions)
    never = len(cells) * repetitions - len(rows)
    outcomes = dict(Counter(row["outcome"] for row in rows).most_common())
    reasons = _reasons(rows)
    return ReportContent(
        name=name,
        summary=results.summary(),
        panels=results.panels(),
        data=[line.as_dict() for line in results.lines],
        repeat=repeat_commands.commands(argument, {argument: (experiment, rows)}, verified=scenario is None),
        conditions=conditions.conditions(cells),
        outcomes={**outcomes, **({"not begun": never} if never > 0 else {})},
        reasons=reasons[:_REASONS],
        reasons_left=max(0, len(reasons) - _REASONS),
        cells=(len({row["cell"] for row in rows}), len(cells)),
        programs=list(_programs(rows)),
        facts=_facts(experiment, rows, repetitions),
        hashes=block_files.digests(folder),
        maps=results.maps(),
    )


def of_figure(name: str, figure: Numeric) -> ReportContent:
    """Return the content of the page for a computed figure."""
    return ReportContent(
        name=name,
        summary=numeric_page.summary(figure),
        panels=numeric_page.panels(figure),
        data=figure.rows(),
        repeat=[f"firstflight testbed show {shlex.quote(name)}"],
    )


def of_derived(
    name: str, derived: Derived, out: Path, rows: Mapping[str, Sequence[TrialRow]]
) -> ReportContent:
    """Return the content of the page for a table computed from the `rows` of several experiments in `out`."""
    every = [row for experiment_rows in rows.values() for row in experiment_rows]
    lines = derived.lines(out, every)
    cells = [cell for source in rows for cell in find(source).cells()]
    reasons = _reasons(every)
    return ReportContent(
        name=name,
        summary=derived.summary(lines, [source for source in derived.sources if source not in rows]),
        panels=derived.panels(lines),
        data=[line.as_dict() for line in lines],
        repeat=repeat_commands.commands(
            shlex.quote(name),
            {
                shlex.quote(source): (find(source), experiment_rows)
                for source, experiment_rows in rows.items()
            },
        ),
        conditions=conditions.conditions(cells),
        outcomes=dict(Counter(row["outcome"] for row in every).most_common()),
        reasons=reasons[:_REASONS],
        reasons_left=max(0, len(reasons) - _REASONS),
        cells=(len({(row["experiment"], row["cell"]) for row in every}), len(cells)),
        programs=list(_programs(every)),
        facts=_facts_of_rows(every),
        hashes={
            f"{source}/{place}": digest
            for source in rows
            for place, digest in block_files.digests(out / source).items()
        },
    )


def write(report: ReportContent, path: Path) -> Path:
    """Write the page and return its path. Equal rows and captures give equal bytes.

    FirstflightError if the file cannot be written.
    """
    files.write_text(path, render(report))
    return path


def render(report: ReportContent) -> str:
    """Return the page as HTML."""
    data = _flattened(report.data)
    figure, undrawn = _figure(report, data)
    return html.render(
        "experiment.html",
        page=report,
        summary=report.summary,
        headings=summary.headings(report.summary.columns),
        table=list(zip(*(column.cells for column in report.summary.columns), strict=True)),
        right=[column.right for column in report.summary.columns],
        figure=figure,
        better=None if report.maps is None else gridded.counts(report.maps.maps),
        data=html.csv_url(data),
        undrawn=undrawn,
    )


def _figure(report: ReportContent, data: list[dict[str, Any]]) -> tuple[html.PageFigure | None, list[str]]:
    """Return the report's figure (`None` without one), and the labels not drawn."""
    title = wording.plain_long(report.summary.title)
    if report.maps is not None:
        text = wording.plain_long(gridded.described(report.maps))
        draw: html.Drawing = partial(map_figures.draw, report.maps)
        return html.draw_figure("figure", draw, data, title=title, description=text), []
    if not report.panels:
        return None, []
    text = wording.plain_long(compared.described(report.panels))
    draw = partial(figures.draw, report.panels)
    undrawn = figures.undrawn(report.panels)
    return html.draw_figure("figure", draw, data, title=title, description=text), undrawn


def _flattened(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return lines with nested mappings flattened into columns."""
    held = {name for line in lines for name, value in line.items() if isinstance(value, Mapping)}
    return [
        {name: value for name, value in line.items() if name not in held}
        | {f"{name}_{field}": value for name in held for field, value in sorted((line[name] or {}).items())}
        for line in lines
    ]


def _reasons(rows: Sequence[TrialRow]) -> list[OutcomeCount]:
    """Return the reasons of trials that were not done, most frequent first."""
    groups: dict[tuple[str, str], list[TrialRow]] = {}
    for row in rows:
        if row["outcome"] != "done":
            groups.setdefault((row["outcome"], row["detail"] or ""), []).append(row)
    reasons = [
        OutcomeCount(outcome, detail, len(group), len({row["cell"] for row in group}))
        for (outcome, detail), group in groups.items()
    ]
    return sorted(reasons, key=lambda reason: (-reason.trials, reason.outcome, reason.detail))


def _programs(rows: Sequence[TrialRow]) -> Iterator[tuple[str, str, str, str, int]]:
    for side in ("client", "server"):
        counts = Counter(
            tuple(str(row[name] or "–") for name in (side, f"{side}_version", f"{side}_build"))
            for row in rows
            if row["outcome"] != "unavailable"
        )
        for (stack, version, build), count in sorted(counts.items()):
            yield side, stack, version, build, count


def _facts(experiment: Experiment, rows: Sequence[TrialRow], repetitions: int) -> list[tuple[str, str]]:
    asked = (
        "" if repetitions == experiment.repetitions else f" (of {experiment.repetitions} that its file has)"
    )
    return [
        ("Trials of a cell", f"{repetitions}{asked}, and one before them, which is not counted"),
        *_facts_of_rows(rows),
    ]


def _facts_of_rows(rows: Sequence[TrialRow]) -> list[tuple[str, str]]:
    """Return the facts about rows of experiments."""

    def all_of(column: str) -> str:
        return ", ".join(sorted({str(row[column]) for row in rows if row[column] is not None})) or "–"

    return [
        ("Kernel of the guests", all_of("kernel")),
        ("Version of firstflight", all_of("tool_version")),
        ("CPU time of the guests", _cpu(rows)),
    ]


def _cpu(rows: Sequence[TrialRow]) -> str:
    known = [row["guest_cpu_s"] for row in rows if row["guest_cpu_s"] is not None]
    # Each row has its share of the guest's CPU time.
    return f"{sum(known):.0f} s for {len(known)} trials" if known else "–"
