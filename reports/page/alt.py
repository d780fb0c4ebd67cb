"""Text alternatives of the figures: the numbers that a reader would take from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports import wording
from reports.figures.ack_delay import OUTCOMES
from reports.figures.cdf import Curve
from reports.figures.delay import Panel
from reports.figures.first_pto import Point
from reports.figures.pto import Case


def delays(panels: Sequence[Panel]) -> str:
    """Describe each curve: its share at 0 and its median."""
    parts = []
    for panel in panels:
        curves = "; ".join(
            f"{curve.label}: {wording.percent(_at_zero(curve))} % at 0, half of the probes within "
            f"{wording.ms(_half(curve))} ms"
            for curve in panel.curves
        )
        parts.append(f"{panel.title}: {curves or 'no CDN sends instant ACKs'}.")
    return wording.plain_long(" ".join(parts))


def differences(panels: Mapping[str, Sequence[Curve]]) -> str:
    """Describe each curve by its median."""
    parts = []
    for outcome, curves in panels.items():
        text = "; ".join(
            f"{curve.label}: half of the probes at most {wording.ms(_half(curve))} ms" for curve in curves
        )
        parts.append(f"{OUTCOMES[outcome]}: {text or 'no probes'}.")
    return wording.plain_long(" ".join(parts))


def points(found: Sequence[Point]) -> str:
    """Describe the point of each CDN."""
    text = "; ".join(
        f"{point.cdn} from {point.vantage}: RTT {wording.ms(point.rtt_us[1])} ms, shorter by "
        f"{point.improvements[1]:.1f} RTT"
        for point in found
    )
    curves = "Curves of 3 delta / RTT fall as the RTT grows; above 9 RTT retransmissions are spurious."
    return wording.plain_long(f"{curves} {text or 'No CDN sent an instant ACK'}.")


def cases(found: Sequence[Case]) -> str:
    """Describe the first and the last PTO of each case."""
    return wording.plain_long(
        " ".join(
            f"{case.title}: with an instant ACK the PTO goes from {case.instant[0]:.1f} to "
            f"{case.instant[-1]:.1f} ms, without from {case.waiting[0]:.1f} to {case.waiting[-1]:.1f} ms."
            for case in found
        )
    )


def _at_zero(curve: Curve) -> float:
    return curve.shares[0] if curve.values_us[0] == 0 else 0.0


def _half(curve: Curve) -> int:
    return next(us for us, share in zip(curve.values_us, curve.shares, strict=True) if share >= 0.5)
