"""Statements for a cluster of several shards, made from those for a cluster of one.

Tables of records with a name are sharded: T_local has a shard's rows, and T, a Distributed table over the
T_local of all shards, is what views, queries and the loader name. All other tables are whole: one Replicated
table, of which every server of every shard is a replica. docs/design/0018 has the reasons.
"""

from __future__ import annotations

import re

# Table -> sharding key. All rows of a name are on one shard, in all tables, because the key hashes the name's
# text. A connection without SNI has no name, so the key uses its server's address.
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
# An insert ends when the shards have its rows.
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
    """Return whether the rows of `table` are spread over the shards; T_new is like T, which it becomes."""
    return table.removesuffix("_new") in KEYS


def spread(statement: str, database: str, cluster: str) -> list[str]:
    """Return the statements that do on all shards what `statement`, rendered for a cluster, does on one.

    The actions of one ALTER are all on columns or all on stored rows, so the first one tells which.
    """
    verb, table = _verb(statement, database), _first_table(statement, database)
    if verb == "EXCHANGE":
        return [_at_rows(statement, database)]
    if verb == "CREATE" and not is_sharded(table):
        return [_ENGINE.sub(_whole, statement, count=1)]
    if verb is None or not is_sharded(table):
        return [statement]
    if verb == "CREATE":
        return [_at_rows(statement, database), _distributed(statement, table, database, cluster)]
    if verb == "DROP":  # the rows last: without them the other table answers nothing
        return [statement, _at_rows(statement, database)]
    columns_too = verb == "ALTER" and _OF_COLUMNS.match(_first_action(statement))
    return [_at_rows(statement, database), *([statement] if columns_too else [])]


def _verb(statement: str, database: str) -> str | None:
    """Return the first word of a statement that defines or changes a table; None for any other."""
    found = re.match(
        rf"(CREATE|ALTER|DROP|TRUNCATE|EXCHANGE) TABLES?\s+(?:IF (?:NOT )?EXISTS\s+)?{database}\.", statement
    )
    return found[1] if found else None


def _first_table(statement: str, database: str) -> str:
    found = re.search(rf"\b{database}\.(\w+)", statement)
    return found[1] if found else ""


def _first_action(statement: str) -> str:
    return re.sub(r"^ALTER TABLE \S+\s+(?:ON CLUSTER '\w+')?\s*", "", statement)


def _at_rows(statement: str, database: str) -> str:
    """Return `statement` with the tables that have the rows in place of those over all shards."""
    return re.sub(rf"\b{database}\.(\w+)", lambda found: f"{database}.{local(found[1])}", statement)


def _distributed(statement: str, table: str, database: str, cluster: str) -> str:
    head = re.match(r"CREATE TABLE (?:IF NOT EXISTS )?", statement)
    assert head is not None  # `_verb` found it
    key = KEYS[table.removesuffix("_new")]
    return (
        f"{head[0]}{database}.{table} ON CLUSTER '{cluster}' AS {database}.{local(table)}\n"
        f"ENGINE = Distributed('{cluster}', '{database}', '{local(table)}', {key})"
    )


def _whole(engine: re.Match[str]) -> str:
    return f"ENGINE = {engine[1]}({', '.join(filter(None, (_WHOLE, engine[2])))})"
