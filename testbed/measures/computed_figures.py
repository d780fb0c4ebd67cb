"""All figures and tables that need no trials, keyed by name. No experiment uses these names."""

from __future__ import annotations

from testbed.measures.acks.overhead import OVERHEAD
from testbed.measures.better_answer_page import BETTER, Derived
from testbed.measures.numeric import NUMERIC, Numeric

COMPUTED: dict[str, Numeric] = {**NUMERIC, "ack-overhead": OVERHEAD}
DERIVED: dict[str, Derived] = {"iack-better": BETTER}
"""Those that are made of the trials of experiments."""
