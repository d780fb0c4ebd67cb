"""A separate store for each test, as in tests/store."""

from tests.store.conftest import place as place
from tests.store.conftest import tables as tables
from tests.store.conftest import template as template
