-- Agreed TCP options. Sorted and partitioned as handshakes are, for the same reasons.
CREATE TABLE IF NOT EXISTS ${database}.tcp_option ${on_cluster}
(
    run LowCardinality(String),
    vantage LowCardinality(String),
    repetition UInt16,
    list_id LowCardinality(Nullable(String)),
    rank Nullable(UInt32),
    domain String CODEC(ZSTD(3)),
    ip String CODEC(ZSTD(3)),
    port UInt16,
    resolver LowCardinality(Nullable(String)),
    asn Nullable(UInt32),
    cdn LowCardinality(Nullable(String)),
    outcome Enum8('answered' = 1, 'refused' = 2, 'timeout' = 3, 'unreachable' = 4, 'blocked' = 5, 'send_failed' = 6),
    detail LowCardinality(Nullable(String)),
    sent_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)),
    src_ip LowCardinality(Nullable(String)),
    src_port Nullable(UInt16) CODEC(T64, ZSTD(1)),
    connects UInt8,
    syn_retransmissions Nullable(UInt16),
    mss Nullable(UInt32) CODEC(T64, ZSTD(1)),
    window_scaling Nullable(Bool),
    wscale Nullable(UInt8),
    sack Nullable(Bool),
    timestamps Nullable(Bool),
    ecn Nullable(Bool),
    rtt_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    network_paused_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)),
    tool_version LowCardinality(String),
    host LowCardinality(Nullable(String)),
    worker LowCardinality(Nullable(String)),
    ruleset LowCardinality(String),
    clock_offset_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    source_file LowCardinality(String),
    INDEX of_run run TYPE minmax
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(coalesce(
    toDate(sent_at), toDate(parseDateTimeBestEffortOrNull(substring(CAST(run AS String), 1, 16), 'UTC')), toDate(0)))
ORDER BY (domain, ip, port, vantage, run, repetition)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000;
