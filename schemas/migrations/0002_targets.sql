-- Names to measure, their DNS answers, and addresses found by scans.

CREATE TABLE IF NOT EXISTS ${database}.target ${on_cluster}
(
    run LowCardinality(String),
    rank Nullable(UInt32),
    domain String CODEC(ZSTD(3)),
    list_id LowCardinality(String),
    rank_bucket Nullable(UInt32),
    source_file LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
ORDER BY (run, domain)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS ${database}.dns_answer ${on_cluster}
(
    run LowCardinality(String),
    vantage LowCardinality(String),
    repetition UInt16,
    asked_at DateTime64(9, 'UTC') CODEC(T64, ZSTD(1)),
    list_id LowCardinality(String),
    rank Nullable(UInt32),
    domain String CODEC(ZSTD(3)),
    qtype LowCardinality(String),
    status Enum8('NOERROR' = 1, 'NODATA' = 2, 'NXDOMAIN' = 3, 'SERVFAIL' = 4, 'REFUSED' = 5, 'FORMERR' = 6,
        'NOTIMP' = 7, 'OTHER' = 8, 'TIMEOUT' = 9, 'NETWORK' = 10, 'MALFORMED' = 11, 'CHAIN' = 12, 'REFERRAL' = 13),
    rcode Nullable(UInt16),
    answer_rank Nullable(UInt16),
    address Nullable(String) CODEC(ZSTD(3)),
    ttl Nullable(UInt32) CODEC(T64, ZSTD(1)),
    cname_chain Array(String) CODEC(ZSTD(3)),
    cname_ttls Array(UInt32),
    https_priority Nullable(UInt16),
    https_target Nullable(String),
    https_port Nullable(UInt16),
    https_alpn Array(LowCardinality(String)),
    https_ipv4hint Array(String) CODEC(ZSTD(3)),
    https_ipv6hint Array(String) CODEC(ZSTD(3)),
    https_ech Nullable(Bool),
    https_ech_config_ids Array(UInt32),
    https_ech_public_names Array(String) CODEC(ZSTD(3)),
    data Nullable(String) CODEC(ZSTD(3)),
    records_left_out Nullable(UInt16),
    resolver LowCardinality(String),
    attempts UInt8,
    transport LowCardinality(Nullable(String)),
    duration_us Int64 CODEC(T64, ZSTD(1)),
    detail LowCardinality(Nullable(String)),
    tool_version LowCardinality(String),
    source_file LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(asked_at)
ORDER BY (run, domain, qtype, vantage, repetition)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS ${database}.scan_answer ${on_cluster}
(
    run LowCardinality(String),
    vantage LowCardinality(String),
    repetition UInt16,
    ip String CODEC(ZSTD(3)),
    port UInt16,
    asn Nullable(UInt32),
    cdn LowCardinality(Nullable(String)),
    received_at DateTime64(9, 'UTC') CODEC(T64, ZSTD(1)),
    version_list LowCardinality(String),
    ttl UInt8,
    clock_offset_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    tool_version LowCardinality(String),
    host LowCardinality(Nullable(String)),
    worker LowCardinality(Nullable(String)),
    ruleset LowCardinality(String),
    source_file LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(received_at)
ORDER BY (run, ip, vantage, repetition)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000;
