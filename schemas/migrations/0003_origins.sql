-- Routing tables, AS organisations, and the functions that find the AS, organisation and CDN of an address.

-- Sorted by prefix, so that an entry that does not change from one routing table to the next compresses well.
CREATE TABLE IF NOT EXISTS ${database}.as_prefix ${on_cluster}
(
    run LowCardinality(String),
    table_at DateTime64(9, 'UTC') CODEC(T64, ZSTD(1)),
    prefix String CODEC(ZSTD(3)),
    asn UInt32 CODEC(ZSTD(1)),
    cdn LowCardinality(String),
    source_file LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(table_at)
ORDER BY (prefix, run)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS ${database}.as_org ${on_cluster}
(
    run LowCardinality(String),
    table_at DateTime64(9, 'UTC') CODEC(T64, ZSTD(1)),
    asn UInt32 CODEC(ZSTD(1)),
    as_name Nullable(String) CODEC(ZSTD(3)),
    org_id Nullable(String) CODEC(ZSTD(3)),
    organisation Nullable(String) CODEC(ZSTD(3)),
    country LowCardinality(Nullable(String)),
    registry LowCardinality(Nullable(String)),
    as2org_file LowCardinality(String),
    source_file LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(table_at)
ORDER BY (asn, run)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000;

-- The loader derives the histories from as_prefix and as_org (schemas/derived); the dictionaries read them.
CREATE TABLE IF NOT EXISTS ${database}.prefix_history ${on_cluster}
(
    prefix String CODEC(ZSTD(3)),
    history UInt64,
    first_days Array(Date) CODEC(ZSTD(1)),
    last_days Array(Date) CODEC(ZSTD(1)),
    asns Array(UInt32) CODEC(ZSTD(1)),
    cdns Array(String) CODEC(ZSTD(1))
)
ENGINE = ${replicated}MergeTree
ORDER BY (history, prefix);

CREATE TABLE IF NOT EXISTS ${database}.origin_history ${on_cluster}
(
    history UInt64,
    first_day Date,
    last_day Date,
    asn UInt32,
    cdn LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
ORDER BY (history, first_day);

CREATE TABLE IF NOT EXISTS ${database}.as_history ${on_cluster}
(
    asn UInt64,
    first_day Date,
    last_day Date,
    as_name Nullable(String) CODEC(ZSTD(3)),
    organisation Nullable(String) CODEC(ZSTD(3)),
    country LowCardinality(Nullable(String))
)
ENGINE = ${replicated}MergeTree
ORDER BY (asn, first_day);

-- The longest prefix first, then the day: a trie over the prefixes of all tables, and the ranges of days of each
-- origin. A server checks every few minutes whether tables were loaded (LIFETIME).
CREATE DICTIONARY IF NOT EXISTS ${database}.prefix_history_of ${on_cluster}
(
    prefix String,
    history UInt64
)
PRIMARY KEY prefix
SOURCE(CLICKHOUSE(
    QUERY 'SELECT prefix, history FROM ${database}.prefix_history'
    INVALIDATE_QUERY 'SELECT max(modification_time) FROM system.parts WHERE database = ''${database}'' AND table = ''prefix_history'' AND active'
))
LAYOUT(IP_TRIE)
LIFETIME(MIN 120 MAX 300)
COMMENT 'Longest prefix of an address among those of all routing tables in the store; address_info(ip, day) asks it.';

CREATE DICTIONARY IF NOT EXISTS ${database}.origin_of ${on_cluster}
(
    history UInt64,
    first_day Date,
    last_day Date,
    asn UInt32,
    cdn String
)
PRIMARY KEY history
SOURCE(CLICKHOUSE(
    QUERY 'SELECT history, first_day, last_day, asn, cdn FROM ${database}.origin_history'
    INVALIDATE_QUERY 'SELECT max(modification_time) FROM system.parts WHERE database = ''${database}'' AND table = ''origin_history'' AND active'
))
LAYOUT(RANGE_HASHED)
RANGE(MIN first_day MAX last_day)
LIFETIME(MIN 120 MAX 300)
COMMENT 'Who announced a prefix of prefix_history_of on a day; address_info(ip, day) asks it.';

CREATE DICTIONARY IF NOT EXISTS ${database}.as_of ${on_cluster}
(
    asn UInt64,
    first_day Date,
    last_day Date,
    as_name Nullable(String),
    organisation Nullable(String),
    country Nullable(String)
)
PRIMARY KEY asn
SOURCE(CLICKHOUSE(
    QUERY 'SELECT asn, first_day, last_day, as_name, organisation, country FROM ${database}.as_history'
    INVALIDATE_QUERY 'SELECT max(modification_time) FROM system.parts WHERE database = ''${database}'' AND table = ''as_history'' AND active'
))
LAYOUT(RANGE_HASHED)
RANGE(MIN first_day MAX last_day)
LIFETIME(MIN 120 MAX 300)
COMMENT 'Who held an AS on a day; as_organisation(asn, day) and address_info(ip, day) ask it.';

-- ip: IPv4 or IPv6 address as text; day: a date or time. Null if no routing table of that day or before has a route,
-- or if there is no day, as for a probe that was not sent.
CREATE OR REPLACE FUNCTION address_asn ${on_cluster} AS (ip, day) -> dictGetOrNull(
    '${database}.origin_of', 'asn',
    dictGet('${database}.prefix_history_of', 'history', toIPv6OrDefault(ifNull(toString(ip), ''))),
    ifNull(toDate(day), toDate(0)));

CREATE OR REPLACE FUNCTION address_cdn ${on_cluster} AS (ip, day) -> dictGetOrNull(
    '${database}.origin_of', 'cdn',
    dictGet('${database}.prefix_history_of', 'history', toIPv6OrDefault(ifNull(toString(ip), ''))),
    ifNull(toDate(day), toDate(0)));

CREATE OR REPLACE FUNCTION as_organisation ${on_cluster} AS (asn, day) -> dictGetOrNull(
    '${database}.as_of', 'organisation', toUInt64(ifNull(asn, 0)), ifNull(toDate(day), toDate(0)));

CREATE OR REPLACE FUNCTION address_organisation ${on_cluster} AS (ip, day) -> as_organisation(address_asn(ip, day), day);

CREATE OR REPLACE FUNCTION address_info ${on_cluster} AS (ip, day) -> CAST(
    (
        address_asn(ip, day),
        dictGetOrNull('${database}.as_of', 'as_name', toUInt64(ifNull(address_asn(ip, day), 0)),
            ifNull(toDate(day), toDate(0))),
        address_organisation(ip, day),
        dictGetOrNull('${database}.as_of', 'country', toUInt64(ifNull(address_asn(ip, day), 0)),
            ifNull(toDate(day), toDate(0))),
        address_cdn(ip, day)
    ),
    'Tuple(asn Nullable(UInt32), as_name Nullable(String), organisation Nullable(String), '
    || 'country Nullable(String), cdn Nullable(String))');
