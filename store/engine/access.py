"""The engine's own access control: grants, limits and fixed settings, in a generated configuration.

chDB has one user, `default`, and reads users.xml when it opens a store, so each process chooses one role:

- READER runs queries (`sql`, `query`, `report`): SELECT, SHOW and CHECK within limits, no changes.
- LOADER loads and migrates the embedded store, and may read files; it runs only the project's statements.
- SERVER runs `store serve`: LOADER with limits; it reads files because inserts reach the engine as files.
- FORMATTER has no store: it formats a server's answers, which it reads from a file.

No grant covers the scalar function `file`; the guard and, in confined processes, the kernel refuse it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from firstflight.system.memory import usable_bytes

_GIB = 1 << 30
# Tables that keep their rows in the store, or in memory.
ENGINES = (
    "MergeTree", "ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree", "CollapsingMergeTree",
    "VersionedCollapsingMergeTree", "CoalescingMergeTree", "Memory", "Null", "Log", "TinyLog", "StripeLog",
    "Set", "Join", "Merge", "Buffer", "View", "MaterializedView", "Dictionary", "Atomic",
)  # fmt: skip
# Settings that name a file, a host or a program, or run text as code. Nobody can change them.
_FIXED: Mapping[str, object] = {
    "input_format_values_interpret_expressions": 0,
    "input_format_values_deduce_templates_of_expressions": 0,
    "format_schema": "",
    "format_schema_source": "file",
    "output_format_schema": "",
    "format_template_row": "",
    "format_template_resultset": "",
    "format_avro_schema_registry_url": "",
    "allow_introspection_functions": 0,
    "allow_experimental_eval_table_function": 0,
}
# Merges run concurrently with inserts and queries, in this process. By default up to 32 run at a time. For
# parts of fewer than 131,072 rows, a merge reads and writes all columns together, which needs 100 MB
# for the widest kinds. Here merges go column by column, and `Role.merges` run at a time. Each part needs a
# granule in memory: 5 MB for the transport parameters that clients offer. By default up to 100 parts are
# merged together.
_MERGE_TREE: Mapping[str, int] = {
    "vertical_merge_algorithm_min_rows_to_activate": 1,
    "max_parts_to_merge_at_once": 8,
    # Minimum number of free slots for these operations; the default is more than the slots here.
    "number_of_free_entries_in_pool_to_execute_mutation": 1,
    "number_of_free_entries_in_pool_to_execute_optimize_entire_partition": 1,
}
_QUERY_LIMITS: Mapping[str, int] = {
    "max_result_rows": 100_000_000,
    "max_execution_time": 3600,
    "max_temporary_data_on_disk_size_for_query": 64 * _GIB,
}


@dataclass(frozen=True, eq=False)  # compared by identity
class Role:
    """Grants, initial settings, and settings with an upper limit."""

    grants: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    # Concurrent merges and mutations; 0: no merge. During a long merge, a second slot handles small ones.
    merges: int = 2

    def users(self) -> str:
        """Return users.xml: the only user, its profile and grants."""
        half = usable_bytes() // 2
        limits = {**self.limits, "max_memory_usage": min(half, max(_GIB, half // 2))}
        settings = _elements({**_FIXED, **limits, **self.settings})
        # 0 means no limit, so the minimum is 1.
        constraints = "".join(f"<{name}><readonly/></{name}>" for name in _FIXED) + "".join(
            f"<{name}><min>1</min><max>{value}</max></{name}>" for name, value in limits.items()
        )
        grants = "".join(f"<query>{escape(grant)}</query>" for grant in self.grants)
        return (
            f"<clickhouse><profiles><default>{settings}<constraints>{constraints}</constraints></default>"
            "</profiles><quotas><default/></quotas><users><default><password/><networks><ip>::/0</ip></networks>"
            f"<profile>default</profile><quota>default</quota><grants>{grants}</grants></default></users>"
            "</clickhouse>"
        )


_ASK = "GRANT SHOW, SELECT, dictGet, CHECK ON *.*"
_CHANGE = (
    _ASK,
    "GRANT INSERT, ALTER, CREATE, DROP, TRUNCATE, OPTIMIZE ON *.*",
    # These read or write files outside the tables.
    "REVOKE ALTER FREEZE PARTITION, ALTER FETCH PARTITION ON *.*",
    *(f"GRANT TABLE ENGINE ON {name}" for name in ENGINES),
)
# Permission to make the engine's allocator return free memory.
_RETURN_MEMORY = "GRANT SYSTEM JEMALLOC ON *.*"
# A merge would take 200 MB during a query; the next loader does it.
READER = Role((_ASK, _RETURN_MEMORY), limits=_QUERY_LIMITS, merges=0)
_CHANGE_BY_FILE = (*_CHANGE, "GRANT READ ON FILE")
LOADER = Role((*_CHANGE_BY_FILE, _RETURN_MEMORY), merges=1)
SERVER = Role(_CHANGE_BY_FILE, limits=_QUERY_LIMITS)
# The engine treats a table function as a temporary table.
FORMATTER = Role((_ASK, "GRANT READ ON FILE", "GRANT CREATE TEMPORARY TABLE ON *.*"))


def configured(role: Role) -> str:
    """Return the path of the engine's configuration for `role`: a file in memory, closed to other processes.

    The file stays open until the process exits, because the engine may read it again.
    """
    main = (
        f"<clickhouse><user_directories><users_xml><path>{_in_memory(role.users())}</path></users_xml>"
        f"</user_directories><timezone>UTC</timezone>"
        f"<max_server_memory_usage>{usable_bytes() // 2}</max_server_memory_usage>"
        f"{_merging(role.merges)}"
        "<access_control_improvements><table_engines_require_grant>true</table_engines_require_grant>"
        "</access_control_improvements></clickhouse>"
    )
    return _in_memory(main)


def _merging(slots: int) -> str:
    threads = max(1, slots)
    server = {"background_pool_size": threads, "background_merges_mutations_concurrency_ratio": 1}
    tables = {**_MERGE_TREE, "number_of_free_entries_in_pool_to_lower_max_size_of_merge": threads}
    if slots:
        # The engine removes merged parts every 30 to 40 s by default. A load is often shorter, so these parts
        # would accumulate. After a minute, the kernel has written the part that replaces them.
        tables |= {
            "cleanup_delay_period": 1,
            "cleanup_delay_period_random_add": 0,
            "old_parts_lifetime": 60,
        }
    else:
        # Every part is larger than a byte, so nothing is merged.
        tables |= {f"max_bytes_to_merge_at_{space}_space_in_pool": 1 for space in ("min", "max")}
    return f"{_elements(server)}<merge_tree>{_elements(tables)}</merge_tree>"


def _elements(values: Mapping[str, object]) -> str:
    return "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in values.items())


def _in_memory(text: str) -> str:
    handle = os.memfd_create("firstflight-engine", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(handle, text.encode())
    return f"/proc/self/fd/{handle}"
