"""A separate store for each test, as in tests/store."""

from tests.store.conftest import emptied_tables as emptied_tables
from tests.store.conftest import place as place
from tests.store.conftest import shared_store as shared_store
from tests.store.conftest import tables as tables
from tests.store.conftest import template as template
