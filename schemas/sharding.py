"""Derives the statements for a cluster of several shards from the statements for a single shard.

Tables of records with a name are sharded: T_local has a shard's rows. T is a Distributed table over the
T_local of all shards, for views, queries and the loader. All other tables are whole: a Replicated table, with
a replica on every server of every shard. docs/design/0018 has the reasons.
"""

from __future__ import annotations

import re

# Table -> sharding key. All rows for a name are on one shard, in all tables, because the key hashes the text
# of the name. A connection without SNI has no name, so the key uses its server's address.
LOCAL = "_local"
_NAME = "cityHash64(domain)"
KEYS = {
    "quic_probe": _NAME,
    "dns_answer": _NAME,
    "target": _NAME,
    "watch_slot": _NAME,
    "quic_handshake": _NAME,
    "http3_response": _NAME,
    "calibration": _NAME,
    "download": _NAME,
    "download_file": _NAME,
    "crawl_page": _NAME,
    "tcp_option": _NAME,
    "quic_connection": "cityHash64(ifNull(sni, server_ip))",
    "quic_ack": "cityHash64(ifNull(sni, server_ip))",
}
# Every query reads the rows of all shards: the right side of IN and JOIN is computed once, from all shards.
# An insert returns when the shards have its rows.
SETTINGS: dict[str, object] = {"prefer_global_in_and_join": 1, "distributed_foreground_insert": 1}
# A whole table has the same path in all shards, and a replica name that is unique per server.
_WHOLE = "'/clickhouse/tables/{uuid}/whole', '{shard}-{replica}'"
_ENGINE = re.compile(r"\bENGINE = (Replicated\w*MergeTree)(?:\((.*?)\))?")
# Actions that also apply to a Distributed table; all others concern stored rows.
_OF_COLUMNS = re.compile(r"(ADD|MODIFY|DROP|RENAME|COMMENT) COLUMN\b|MODIFY COMMENT\b")


def local(table: str) -> str:
    """Return the name of the table with the rows of `table` on one shard; `table` itself if it is whole."""
    return f"{table}{LOCAL}" if is_sharded(table) else table


def is_sharded(table: str) -> bool:
    """Return whether the rows of `table` are spread over the shards."""
    return table in KEYS


def spread(statement: str, database: str, cluster: str) -> list[str]:
    """Return the statements for all shards that are equivalent to `statement`, rendered for a single shard.

    The actions of an ALTER concern either columns or stored rows, so the first action determines which.
    """
    verb, table = _verb(statement, database), _first_table(statement, database)
    if verb == "CREATE" and not is_sharded(table):
        return [_ENGINE.sub(_replicated, statement, count=1)]
    if verb is None or not is_sharded(table):
        return [statement]
    if verb == "CREATE":
        return [_at_rows(statement, database), _distributed(statement, table, database, cluster)]
    columns_too = verb == "ALTER" and _OF_COLUMNS.match(_first_action(statement))
    return [_at_rows(statement, database), *([statement] if columns_too else [])]


def _verb(statement: str, database: str) -> str | None:
    """Return the first word of a statement that defines or changes a table, else `None`."""
    match = re.match(rf"(CREATE|ALTER) TABLE\s+(?:IF NOT EXISTS\s+)?{database}\.", statement)
    return match[1] if match else None


def _first_table(statement: str, database: str) -> str:
    match = re.search(rf"\b{database}\.(\w+)", statement)
    return match[1] if match else ""


def _first_action(statement: str) -> str:
    return re.sub(r"^ALTER TABLE \S+\s+(?:ON CLUSTER '\w+')?\s*", "", statement)


def _at_rows(statement: str, database: str) -> str:
    """Return `statement` with local tables in place of the Distributed ones."""
    return re.sub(rf"\b{database}\.(\w+)", lambda match: f"{database}.{local(match[1])}", statement)


def _distributed(statement: str, table: str, database: str, cluster: str) -> str:
    head = re.match(r"CREATE TABLE (?:IF NOT EXISTS )?", statement)
    assert head is not None  # `_verb` found it
    return (
        f"{head[0]}{database}.{table} ON CLUSTER '{cluster}' AS {database}.{local(table)}\n"
        f"ENGINE = Distributed('{cluster}', '{database}', '{local(table)}', {KEYS[table]})"
    )


def _replicated(engine: re.Match[str]) -> str:
    return f"ENGINE = {engine[1]}({', '.join(filter(None, (_WHOLE, engine[2])))})"
