"""The functions and settings that statements of users and clients may name.

Table functions and settings must be in a list here. Scalar functions are allowed unless a review of the
engine's list (system.functions) excluded them. A test fails when an engine has functions that were not
reviewed.
"""

from __future__ import annotations

import re

from store.engine.session import EngineSession

# Table functions that only compute, or read tables of the store.
TABLE_FUNCTIONS = frozenset({
    "numbers", "numbers_mt", "zeros", "zeros_mt", "generateseries", "generate_series", "generaterandom",
    "primes", "values", "sqlstandardvalues", "null", "format", "view", "viewexplain", "merge", "loop",
    "dictionary", "mergetreeindex", "mergetreeprojection",
})  # fmt: skip
# Functions that the review excluded: they read files or devices, call services, expose this process's state,
# run text as code, write to the log, or use models and texts from the configuration.
LEFT_OUT = re.compile(
    r"file|filesystem\w+|eval\w*|catboostevaluate|ai\w+|addressto\w+|demangle|logtrace|trap|buildid"
    r"|generateserialid|structureto\w+schema|lemmatize|synonyms|naivebayes\w+"
    r"|detect(charset|language\w*|programminglanguage|tonality)|regionto\w+|regionhierarchy|regionin|zookeeper\w+"
    r"|currentrequesturl|currenthandler|getclienthttpheader|serveruuid|fuzzquery|showcertificate|tcpport"
    r"|hostname|fullhostname|fqdn|displayname|getserversetting|getmacro"
)
"""Lower-case names of scalar functions that are refused."""
REVIEWED, REVIEWED_TABLE_FUNCTIONS = 1885, 94
"""The number of functions in the engine at the review."""

# Settings that change how a statement is computed, stored or shown, and reach nothing outside the store. The
# engine's configuration has maxima for limits.
_PREFIXES = (
    "max_", "min_", "join_", "group_by_", "distinct_", "optimize_", "query_plan_", "merge_tree_",
    "read_in_order_", "insert_", "async_insert_", "parallel_", "prefer_", "union_", "transform_",
    "use_", "totals_", "cast_", "mutations_", "alter_", "lightweight_", "compile_", "count_distinct_",
    "empty_result_for_", "date_time_", "short_circuit_", "deduplicate_", "send_", "describe_",
    "index_granularity", "non_replicated_deduplication_window", "allow_suspicious_", "allow_nullable_",
    "allow_statistics", "allow_reorder_", "allow_aggregate_", "enable_analyzer", "enable_optimize_",
    "enable_join_", "enable_time_", "enable_lightweight_", "enable_scalar_", "output_format_json_",
    "output_format_pretty_", "output_format_csv_", "output_format_tsv_", "output_format_native_",
    "output_format_decimal_", "output_format_float_", "output_format_arrow_", "output_format_parquet_",
    "input_format_json_", "input_format_csv_", "input_format_tsv_", "input_format_null_",
    "input_format_defaults_", "input_format_skip_", "input_format_parallel_", "input_format_native_",
    "format_csv_",
)  # fmt: skip
_SETTINGS = frozenset({
    "asterisk_include_alias_columns", "asterisk_include_materialized_columns", "async_insert",
    "readonly", "result_overflow_mode", "extremes", "log_queries", "limit", "offset", "final",
    "session_timezone", "print_pretty_type_names", "priority", "wait_for_async_insert",
    "wait_end_of_query", "default_compression_codec", "ttl_only_drop_parts", "flatten_nested",
    "exact_rows_before_limit", "interval_output_format", "data_type_default_nullable",
    "any_join_distinct_right_table_keys", "do_not_merge_across_partitions_select_final",
    "rows_before_aggregation", "connect_timeout", "receive_timeout", "send_timeout",
    "bool_true_representation", "bool_false_representation", "network_compression_method",
})  # fmt: skip
# Settings with an allowed prefix that take an SQL expression, which the guard does not check.
_TEXTS_OF_SQL = frozenset({"parallel_replicas_custom_key"})
_refused: list[frozenset[str]] = []
# Formats of rows in an INSERT's text. They read no schema from a file or another host.
INSERT_FORMATS = re.compile(r"Values|TSV\w*|TabSeparated\w*|CSV\w*|JSON\w*|Native|LineAsString")


def refused_functions(engine: EngineSession) -> frozenset[str]:
    """Return the lower-case names of this engine's functions that statements may not name."""
    if not _refused:  # the same for all sessions of the process
        scalar = set(engine.run("SELECT DISTINCT lower(name) FROM system.functions").decode().split())
        tables = set(engine.run("SELECT DISTINCT lower(name) FROM system.table_functions").decode().split())
        left_out = {name for name in scalar if LEFT_OUT.fullmatch(name)}
        _refused.append(frozenset(left_out | (tables - TABLE_FUNCTIONS - (scalar - left_out))))
    return _refused[0]


def is_allowed_setting(name: str) -> bool:
    """Return whether a statement or a query's packet may set this setting."""
    return name in _SETTINGS or (name.startswith(_PREFIXES) and name not in _TEXTS_OF_SQL)
