"""Load the testbed's stacks as on a new machine: programs that the user built from source are hidden."""

from __future__ import annotations

from unittest import mock

from testbed import stacks
from testbed.stacks.from_source import SourceStack

# Some test modules load the stacks when they are imported, so this runs first.
stacks.load.cache_clear()
with mock.patch.object(SourceStack, "command", return_value=None):
    stacks.load()
