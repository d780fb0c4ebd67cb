-- The crawl: which file each name offers, and what finding it took.
CREATE TABLE IF NOT EXISTS ${database}.download_file ${on_cluster}
(
    run LowCardinality(String),
    domain String CODEC(ZSTD(3)),
    ip Nullable(String) CODEC(ZSTD(3)),
    url Nullable(String) CODEC(ZSTD(3)),
    outcome Enum8('found' = 1, 'too_small' = 2, 'too_large' = 3, 'no_size' = 4, 'robots' = 5, 'elsewhere' = 6,
        'blocked' = 7, 'http_error' = 8, 'limit' = 9, 'failed' = 10, 'nothing_found' = 11),
    reason Nullable(String) CODEC(ZSTD(3)),
    status Nullable(UInt16),
    method LowCardinality(Nullable(String)),
    size Nullable(UInt64) CODEC(T64, ZSTD(1)),
    size_is_lower_bound Bool,
    content_type LowCardinality(Nullable(String)),
    content_encoding LowCardinality(Nullable(String)),
    etag Nullable(String) CODEC(ZSTD(3)),
    last_modified Nullable(String) CODEC(ZSTD(3)),
    cache_control LowCardinality(Nullable(String)),
    age_s Nullable(UInt32) CODEC(T64, ZSTD(1)),
    cache_status Nullable(String) CODEC(ZSTD(3)),
    alt_svc Nullable(String) CODEC(ZSTD(3)),
    server_header LowCardinality(Nullable(String)),
    depth Nullable(UInt8),
    found_on Nullable(String) CODEC(ZSTD(3)),
    found_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)),
    crawled_at DateTime64(9, 'UTC') CODEC(T64, ZSTD(1)),
    tool_version LowCardinality(String),
    host LowCardinality(Nullable(String)),
    ruleset LowCardinality(String),
    source_file LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(crawled_at)
ORDER BY (domain, run)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS ${database}.crawl_page ${on_cluster}
(
    run LowCardinality(String),
    domain String CODEC(ZSTD(3)),
    ip Nullable(String) CODEC(ZSTD(3)),
    outcome Enum8('found' = 1, 'too_small' = 2, 'too_large' = 3, 'no_size' = 4, 'robots' = 5, 'elsewhere' = 6,
        'blocked' = 7, 'http_error' = 8, 'limit' = 9, 'failed' = 10, 'nothing_found' = 11),
    robots LowCardinality(Nullable(String)),
    requests UInt16,
    pages UInt16,
    files UInt16,
    links UInt32 CODEC(T64, ZSTD(1)),
    links_elsewhere UInt32 CODEC(T64, ZSTD(1)),
    links_unusable UInt32 CODEC(T64, ZSTD(1)),
    links_left_out UInt32 CODEC(T64, ZSTD(1)),
    forbidden UInt16,
    deepest UInt8,
    bytes_received UInt64 CODEC(T64, ZSTD(1)),
    duration_us Int64 CODEC(T64, ZSTD(1)),
    crawled_at DateTime64(9, 'UTC') CODEC(T64, ZSTD(1)),
    tool_version LowCardinality(String),
    host LowCardinality(Nullable(String)),
    ruleset LowCardinality(String),
    source_file LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(crawled_at)
ORDER BY (domain, run)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000;
