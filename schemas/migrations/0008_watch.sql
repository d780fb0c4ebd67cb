-- Watches, pauses of networks, and clocks that are compared.
ALTER TABLE ${database}.quic_probe ${on_cluster}
    ADD COLUMN IF NOT EXISTS slot Nullable(UInt32) CODEC(T64, ZSTD(1)) AFTER capture_file,
    ADD COLUMN IF NOT EXISTS network_paused_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)) AFTER slot,
    ADD COLUMN IF NOT EXISTS clock_offset_us Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER network_paused_at;

-- One row per planned probe. Sorted by time, as it is asked for: hours, and what was missed in them.
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
