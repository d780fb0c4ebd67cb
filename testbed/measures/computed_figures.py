"""All figures and tables that have no trials of their own, by name; no experiment has one of these names."""

from __future__ import annotations

from testbed.measures.acks.overhead import OVERHEAD
from testbed.measures.better_answer_page import BETTER, Derived
from testbed.measures.numeric import NUMERIC, Numeric

COMPUTED: dict[str, Numeric] = {**NUMERIC, "ack-overhead": OVERHEAD}
DERIVED: dict[str, Derived] = {"iack-better": BETTER}
"""Those that are made of the trials of experiments."""
