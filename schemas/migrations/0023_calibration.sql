-- Pairs of a probe and a handshake: a table of their own, so that no table over probes or handshakes counts them.
CREATE TABLE IF NOT EXISTS ${database}.calibration ${on_cluster}
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
    block UInt32 CODEC(T64, ZSTD(1)),
    first Enum8('probe' = 1, 'handshake' = 2),
    probe_outcome Enum8('iack' = 1, 'coalesced' = 2, 'sh_first' = 3, 'closed' = 4, 'ack_only' = 5, 'retry' = 6,
        'version_negotiation' = 7, 'refused' = 8, 'malformed' = 9, 'timeout' = 10, 'send_failed' = 11, 'blocked' = 12),
    probe_sent_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)),
    probe_attempts UInt8,
    probe_retried Bool,
    probe_hello_retry Bool,
    probe_ack_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    probe_sh_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    probe_ack_to_sh_us Nullable(Int64) ALIAS probe_sh_us - probe_ack_us,
    handshake_outcome Enum8('done' = 1, 'handshake_failed' = 2, 'retry_loop' = 3, 'version_negotiation' = 4, 'closed' = 5,
        'timeout' = 6, 'refused' = 7, 'malformed' = 8, 'blocked' = 9, 'send_failed' = 10),
    handshake_stage LowCardinality(Nullable(String)),
    handshake_first_answer LowCardinality(Nullable(String)),
    handshake_sent_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)),
    handshake_retry Bool,
    handshake_hello_retry Bool,
    handshake_ack_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    handshake_sh_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    handshake_ack_to_sh_us Nullable(Int64) ALIAS handshake_sh_us - handshake_ack_us,
    handshake_handshake_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    handshake_retransmissions UInt16,
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
    toDate(probe_sent_at), toDate(parseDateTimeBestEffortOrNull(substring(CAST(run AS String), 1, 16), 'UTC')), toDate(0)))
ORDER BY (domain, ip, port, vantage, run, repetition)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000;
