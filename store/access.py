"""What the engine itself lets its user do: grants, limits and fixed settings, by a configuration of its own.

chDB has one user, `default`, and reads users.xml when it opens a store, so each process chooses one role:

- READER asks (`sql`, `query`, `report`): SELECT, SHOW and CHECK within limits, and nothing can be changed.
- LOADER loads and migrates the embedded store, and may read files; no statement of others is put to it.
- SERVER is behind `store serve`: as LOADER with limits, because the rows of inserts come in by files.
- FORMATTER has no store: it gives answers of a server their form, and reads them from a file.

The scalar function `file` is covered by no grant; the guard and, for processes that are confined, the
kernel are there for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

_GIB = 1 << 30
# Tables that keep their rows in the store, or in memory.
ENGINES = (
    "MergeTree", "ReplacingMergeTree", "SummingMergeTree", "AggregatingMergeTree", "CollapsingMergeTree",
    "VersionedCollapsingMergeTree", "CoalescingMergeTree", "Memory", "Null", "Log", "TinyLog", "StripeLog",
    "Set", "Join", "Merge", "Buffer", "View", "MaterializedView", "Dictionary", "Atomic",
)  # fmt: skip
# Settings that name a file, a host or a program, or make text into code. They stay as they are.
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
_QUERY_LIMITS: Mapping[str, int] = {
    "max_result_rows": 100_000_000,
    "max_execution_time": 3600,
    "max_temporary_data_on_disk_size_for_query": 64 * _GIB,
}


@dataclass(frozen=True, eq=False)  # each is one of a kind
class Role:
    """Grants, settings that hold from the beginning, and settings with the highest value that can be set."""

    grants: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)

    def users(self) -> str:
        """users.xml: the one user, its profile, its grants."""
        memory = memory_bytes() // 2
        limits = {**self.limits, "max_memory_usage": min(memory, max(_GIB, memory // 2))}
        settings = "".join(
            f"<{name}>{escape(str(value))}</{name}>"
            for name, value in {**_FIXED, **limits, **self.settings}.items()
        )
        # 0 means no limit, so that the least is 1.
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
    # These write or read beside the tables.
    "REVOKE ALTER FREEZE PARTITION, ALTER FETCH PARTITION ON *.*",
    *(f"GRANT TABLE ENGINE ON {name}" for name in ENGINES),
)
READER = Role((_ASK,), limits=_QUERY_LIMITS)
LOADER = Role((*_CHANGE, "GRANT READ ON FILE"))
SERVER = Role(LOADER.grants, limits=_QUERY_LIMITS)
# A table function without a table of its own counts as a temporary one.
FORMATTER = Role((_ASK, "GRANT READ ON FILE", "GRANT CREATE TEMPORARY TABLE ON *.*"))


def configured(role: Role) -> str:
    """The path of the engine's configuration for `role`, in memory: nobody else finds or changes it.

    It is there until the process ends, since the engine may read it again.
    """
    main = (
        f"<clickhouse><user_directories><users_xml><path>{_in_memory(role.users())}</path></users_xml>"
        f"</user_directories><timezone>UTC</timezone>"
        f"<max_server_memory_usage>{memory_bytes() // 2}</max_server_memory_usage>"
        "<access_control_improvements><table_engines_require_grant>true</table_engines_require_grant>"
        "</access_control_improvements></clickhouse>"
    )
    return _in_memory(main)


def memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _in_memory(text: str) -> str:
    handle = os.memfd_create("firstflight-engine", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(handle, text.encode())
    return f"/proc/self/fd/{handle}"
