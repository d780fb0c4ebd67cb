"""Expectations for the cells of an experiment about acknowledgements, and whether they are met."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures.acks.cells import Acked, cells, more
from testbed.measures.acks.paired import SIGNIFICANT, compare
from testbed.measures.page import Check
from testbed.trials.cell_rows import by_cell
from testbed.trials.trial_row import Row

MODEL_WITHIN = 0.05
FEWER_ACKS = (4.0, 5.2)
"""From a ratio of 2 to one of 10: equation 3 with Table 5's shares gives 4.2 to 4.9."""
SMALL_PERCENT = 1.0


def checks(experiment: Experiment, rows: Sequence[Row]) -> list[Check]:
    """Return all checks that the cells of `rows` permit."""
    found = [one for one in cells(experiment, rows) if one.done]
    lossless = [one for one in found if one.clean]
    return [
        *_model(lossless),
        *_fewer(lossless),
        *_no_later(lossless),
        *_small(lossless),
        *_timer(found),
        *_no_order(by_cell(experiment, rows)),
    ]


def _model(found: Sequence[Acked]) -> Iterator[Check]:
    for one in found:
        if one.acks and one.model_acks is not None:
            off = one.model_acks / one.acks - 1
            yield Check(
                one.cell,
                f"equation 3 is within {100 * MODEL_WITHIN:g} % of the ACKs without loss",
                f"{one.model_acks:.0f} for {one.acks:.0f} ACKs ({100 * off:+.1f} %)",
                abs(off) <= MODEL_WITHIN,
            )


def _fewer(found: Sequence[Acked]) -> Iterator[Check]:
    low, high = FEWER_ACKS
    for path, two, ten in _pairs(found, 2, 10):
        if two.acks and ten.acks:
            times = two.acks / ten.acks
            yield Check(
                path,
                f"a ratio of 10 sends {low:g} to {high:g} times fewer ACKs than one of 2",
                f"{times:.2f} times",
                low <= times <= high,
            )


def _no_later(found: Sequence[Acked]) -> Iterator[Check]:
    for ratio in sorted({one.ack_ratio for one in found if one.ack_ratio and one.ack_ratio > 2}):
        for path, two, higher in _pairs(found, 2, ratio):
            if two.transfer_ms is not None and higher.transfer_ms is not None:
                later_ms = higher.transfer_ms - two.transfer_ms
                yield Check(
                    f"{path}, ratio {ratio}",
                    "without loss the transfer takes as long as with a ratio of 2, within one RTT",
                    f"{later_ms:+.1f} ms",
                    abs(later_ms) <= two.rtt_ms,
                )


def _small(found: Sequence[Acked]) -> Iterator[Check]:
    for one in found:
        if one.ack_ratio == 10 and one.client_percent is not None:
            yield Check(
                one.cell,
                f"with a ratio of 10 the client sends less than {SMALL_PERCENT:g} % of the server's bytes",
                f"{one.client_percent:.2f} %",
                one.client_percent < SMALL_PERCENT,
            )


def _timer(found: Sequence[Acked]) -> Iterator[Check]:
    """The share of ACKs that the timer sends rises with the ratio, and with the RTT."""

    def check(about: str, less: Acked, higher: Acked) -> Iterator[Check]:
        if less.timer_percent is not None and higher.timer_percent is not None:
            yield Check(
                about,
                "the timer sends a larger share of the ACKs",
                f"{higher.timer_percent:.1f} % after {less.timer_percent:.1f} %",
                higher.timer_percent > less.timer_percent,
            )

    def group(one: Acked) -> tuple[float, str, str, str, str]:
        return one.loss_percent, one.ack_reordering or "", one.more, one.client, one.server

    for key in sorted({group(one) for one in found}):
        loss, reordering, words, *_ = key
        alike = [one for one in found if group(one) == key]
        among = f", loss {loss:g} %, {reordering}" if loss else ""
        for one, other in itertools.pairwise(sorted({one.ack_ratio for one in alike if one.ack_ratio})):
            for path, less, higher in _pairs(alike, one, other):
                yield from check(f"{path}, ratio {other} after {one}{among}", less, higher)
        tens = sorted((one for one in alike if one.ack_ratio == 10), key=lambda one: one.rtt_ms)
        for short, long in itertools.pairwise(tens):
            about = f"ratio 10, RTT {long.rtt_ms:g} after {short.rtt_ms:g} ms{_behind(words)}{among}"
            yield from check(about, short, long)


def _no_order(found: Sequence[tuple[Cell, list[Row]]]) -> Iterator[Check]:
    """With loss neither a ratio nor an answer to reordering is faster on every path (Table 4)."""
    groups: dict[tuple[str, str, str], list[tuple[Cell, list[Row]]]] = {}
    for cell, rows in found:
        if cell.loss_percent:
            groups.setdefault((more(cell), cell.client, cell.server), []).append((cell, rows))
    for (words, *_), lossy in groups.items():
        yield from _no_order_of(lossy, _behind(words))


def _no_order_of(lossy: Sequence[tuple[Cell, list[Row]]], behind: str) -> Iterator[Check]:
    for one, other, of in (
        *_choices(lossy, lambda cell: cell.ack_ratio, lambda cell: cell.ack_reordering, "ratio"),
        *_choices(lossy, lambda cell: cell.ack_reordering, lambda cell: cell.ack_ratio, "reordering"),
    ):
        compared = {rtt_ms: compare(*pair) for rtt_ms, pair in of.items()}
        known = {rtt_ms: result for rtt_ms, result in compared.items() if result is not None}
        if len(known) < 2:
            continue
        directions = {result.direction for result in known.values()}
        yield Check(
            f"{other} against {one}{behind}",
            f"with loss it is not faster, nor slower, on every path (sign test, {SIGNIFICANT:g})",
            ", ".join(
                f"RTT {rtt_ms:g} ms {result.median_ms:+.0f} ms (p {result.p:.3f}, {result.pairs} pairs)"
                for rtt_ms, result in known.items()
            ),
            directions not in ({1}, {-1}),
        )


def _choices(
    found: Sequence[tuple[Cell, list[Row]]],
    varied: Callable[[Cell], object],
    held: Callable[[Cell], object],
    name: str,
) -> Iterator[tuple[str, str, dict[float, tuple[list[Row], list[Row]]]]]:
    """Yield pairs of choices, with the rows of both for each path that has both."""
    for same in dict.fromkeys(held(cell) for cell, _ in found):
        by_choice: dict[object, dict[float, list[Row]]] = {}
        for cell, rows in found:
            if held(cell) == same:
                by_choice.setdefault(varied(cell), {})[cell.rtt_ms] = rows
        for one, other in itertools.combinations(by_choice, 2):
            paths = [rtt_ms for rtt_ms in by_choice[one] if rtt_ms in by_choice[other]]
            yield (
                f"{name} {one}",
                f"{'reordering' if name == 'ratio' else 'ratio'} {same}: {name} {other}",
                {rtt_ms: (by_choice[one][rtt_ms], by_choice[other][rtt_ms]) for rtt_ms in paths},
            )


def _pairs(found: Sequence[Acked], one: int, other: int) -> Iterator[tuple[str, Acked, Acked]]:
    """Yield the paths with cells of both ratios that differ in nothing else: words for it, and the cells."""
    for first, second in itertools.product(found, repeat=2):
        same = first.without_ratio == second.without_ratio
        if same and (first.ack_ratio, second.ack_ratio) == (one, other):
            yield f"RTT {first.rtt_ms:g} ms{_behind(first.more)}", first, second


def _behind(words: str) -> str:
    return f", {words}" if words else ""
