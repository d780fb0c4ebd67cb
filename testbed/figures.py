"""All figures and tables that are computed, by name; no experiment has one of these names."""

from __future__ import annotations

from testbed.acks.overhead import OVERHEAD
from testbed.numeric import NUMERIC, Numeric

COMPUTED: dict[str, Numeric] = {**NUMERIC, "ack-overhead": OVERHEAD}
