-- First answers of QUIC servers, their roll-up, and watches.
--
-- Probes are sorted by name before run, so that the results of a name over time lie together and compress well
-- (measured in docs/design/0004); the index on `run` finds the months of a run. T64 removes the bits that a block of
-- numbers does not use. With compression buffers of 128 KiB instead of 1 MiB per column, the loader needs a third
-- less memory; blocks still end at 64 KiB, so the size on disk is the same.
--
-- A single server remembers the tokens of the last 1,000 inserts, as replicated tables always do, so that an insert
-- that a loader repeats after a broken connection is added once.

CREATE TABLE IF NOT EXISTS ${database}.quic_probe ${on_cluster}
(
    run LowCardinality(String),
    vantage LowCardinality(String),
    repetition UInt16,
    list_id LowCardinality(Nullable(String)),
    rank Nullable(UInt32),
    domain String CODEC(ZSTD(3)),
    ip String CODEC(ZSTD(3)),
    port UInt16,
    address_rank Nullable(UInt16),
    resolver LowCardinality(Nullable(String)),
    asn Nullable(UInt32),
    cdn LowCardinality(Nullable(String)),
    outcome Enum8('iack' = 1, 'coalesced' = 2, 'sh_first' = 3, 'closed' = 4, 'ack_only' = 5, 'retry' = 6,
        'version_negotiation' = 7, 'refused' = 8, 'malformed' = 9, 'timeout' = 10, 'send_failed' = 11, 'blocked' = 12),
    sent_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)),
    src_ip LowCardinality(Nullable(String)),
    src_port Nullable(UInt16) CODEC(T64, ZSTD(1)),
    initial_size Nullable(UInt16),
    version LowCardinality(Nullable(String)),
    client_cid Nullable(String) CODEC(ZSTD(1)),
    attempts UInt8,
    retried Bool,
    hello_retry Bool,
    ack_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    sh_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    ack_to_sh_us Nullable(Int64) ALIAS sh_us - ack_us,
    sh_to_handshake_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    retry_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    ack_delay_raw Nullable(Int64) CODEC(T64, ZSTD(1)),
    ack_delay_us Nullable(Int64) ALIAS if(ack_delay_raw < 1152921504606846976, ack_delay_raw * 8, NULL),
    ack_datagram_bytes Nullable(UInt16),
    ack_frames LowCardinality(Nullable(String)),
    ack_eliciting Nullable(Bool),
    ack_pn Nullable(Int64) CODEC(T64, ZSTD(1)),
    sh_pn Nullable(Int64) CODEC(T64, ZSTD(1)),
    ack_largest Nullable(Int64) CODEC(T64, ZSTD(1)),
    first_ack_range Nullable(Int64) CODEC(T64, ZSTD(1)),
    gap_before_sh Nullable(Bool),
    partial_ack_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    bytes_sent UInt32,
    bytes_received UInt32 CODEC(T64, ZSTD(1)),
    datagrams_received UInt16,
    amplification Nullable(Float32) ALIAS if(retried OR (bytes_sent = 0), NULL, toFloat32(bytes_received / bytes_sent)),
    discarded UInt16,
    after_close UInt16,
    ttl Nullable(UInt8),
    close_code Nullable(Int64) CODEC(T64, ZSTD(1)),
    since_last_probe_s Nullable(Float32),
    server_cid Nullable(String) CODEC(ZSTD(1)),
    close_reason LowCardinality(Nullable(String)),
    version_list LowCardinality(Nullable(String)),
    version_grease Nullable(UInt16),
    vn_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    ecn LowCardinality(Nullable(String)),
    ack_ect0 Nullable(Int64) CODEC(T64, ZSTD(1)),
    ack_ect1 Nullable(Int64) CODEC(T64, ZSTD(1)),
    ack_ce Nullable(Int64) CODEC(T64, ZSTD(1)),
    received_ect0 Nullable(UInt16),
    received_ect1 Nullable(UInt16),
    received_ce Nullable(UInt16),
    ecn_verdict LowCardinality(Nullable(String)),
    listened_s Nullable(Float32),
    retransmissions Nullable(UInt16),
    retransmission_us Array(UInt32) CODEC(ZSTD(1)),
    icmp_type Nullable(UInt8),
    icmp_code Nullable(UInt8),
    detail LowCardinality(Nullable(String)),
    tool_version LowCardinality(String),
    host LowCardinality(Nullable(String)),
    worker LowCardinality(Nullable(String)),
    ruleset LowCardinality(String),
    capture_file LowCardinality(Nullable(String)),
    capture_cut Nullable(Int64),
    slot Nullable(UInt32) CODEC(T64, ZSTD(1)),
    network_paused_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)),
    clock_offset_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    source_file LowCardinality(String),
    day Date DEFAULT coalesce(toDate(sent_at), toDate(parseDateTimeBestEffortOrNull(substring(run, 1, 16), 'UTC')),
        toDate(0)),
    family UInt8 DEFAULT if(isIPv4String(ip), 4, 6),
    INDEX of_run run TYPE minmax GRANULARITY 1
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (domain, ip, port, vantage, run, repetition)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000,
    max_compress_block_size = 131072;

-- The roll-up that dashboards and Table 1 read instead of probes. The loader fills it (schemas/derived).
CREATE TABLE IF NOT EXISTS ${database}.probe_day ${on_cluster}
(
    run LowCardinality(String),
    vantage LowCardinality(String),
    repetition UInt16,
    day Date,
    cdn LowCardinality(Nullable(String)),
    family UInt8,
    first_address Bool,
    probes UInt64,
    sent UInt64,
    iack UInt64,
    coalesced UInt64,
    sh_first UInt64,
    closed UInt64,
    ack_only UInt64,
    retry UInt64,
    version_negotiation UInt64,
    refused UInt64,
    malformed UInt64,
    timeout UInt64,
    send_failed UInt64,
    blocked UInt64,
    counted UInt64,
    instant UInt64,
    names UInt64,
    first_at Nullable(DateTime64(9, 'UTC')),
    last_at Nullable(DateTime64(9, 'UTC')),
    first_iack_at Nullable(DateTime64(9, 'UTC')),
    iack_delays UInt64,
    spurious UInt64,
    amplified UInt64,
    amplified_above_3 UInt64,
    amplification_max Nullable(Float32),
    sized_iack UInt64,
    padded_iack UInt64,
    iack_ack_bytes UInt64,
    iack_budget_bytes UInt64,
    ack_us AggregateFunction(quantilesDD(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99), Int64),
    iack_to_sh_us AggregateFunction(quantilesDD(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99), Int64),
    sh_to_handshake_us AggregateFunction(quantilesDD(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99), Int64),
    ack_delay_us AggregateFunction(quantilesDD(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99), Int64)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (day, run, vantage, repetition)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS ${database}.probe_unit ${on_cluster}
(
    run LowCardinality(String),
    vantage LowCardinality(String),
    repetition UInt16,
    cdn LowCardinality(Nullable(String)),
    family UInt8,
    first_address Bool,
    first_at Nullable(DateTime64(9, 'UTC')),
    names UInt64,
    names_answered UInt64,
    names_counted UInt64,
    names_instant UInt64
)
ENGINE = ${replicated}MergeTree
ORDER BY (run, vantage, repetition)
SETTINGS non_replicated_deduplication_window = 1000;

-- A row per planned probe, sorted by time because queries ask for hours.
CREATE TABLE IF NOT EXISTS ${database}.watch_slot ${on_cluster}
(
    run LowCardinality(String),
    vantage LowCardinality(String),
    repetition UInt16,
    slot UInt32 CODEC(T64, ZSTD(1)),
    purpose Enum8('watch' = 1, 'owned' = 2, 'control' = 3),
    domain LowCardinality(String),
    family UInt8,
    planned_at DateTime64(9, 'UTC') CODEC(T64, ZSTD(1)),
    state Enum8('probed' = 1, 'skipped' = 2),
    reason LowCardinality(Nullable(String)),
    ip LowCardinality(Nullable(String)),
    asn Nullable(UInt32),
    cdn LowCardinality(Nullable(String)),
    late_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    sent_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)),
    outcome LowCardinality(Nullable(String)),
    ack_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    sh_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    clock_offset_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    tool_version LowCardinality(String),
    source_file LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(planned_at)
ORDER BY (vantage, planned_at, run, slot)
SETTINGS default_compression_codec = 'ZSTD(1)', non_replicated_deduplication_window = 1000;
