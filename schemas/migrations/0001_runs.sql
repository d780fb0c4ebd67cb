-- Runs, and the loader's own entries.

-- A run that is loaded again replaces its row.
CREATE TABLE IF NOT EXISTS ${database}.run ${on_cluster}
(
    run String,
    name String,
    state LowCardinality(String),
    started_at DateTime64(9, 'UTC'),
    tool_version LowCardinality(String),
    manifest String CODEC(ZSTD(3)),
    config String CODEC(ZSTD(3)),
    settings String CODEC(ZSTD(3)),
    source_file String
)
ENGINE = ${replicated}MergeTree
ORDER BY run
SETTINGS non_replicated_deduplication_window = 1000;

-- A row is written before a file's rows (`loading`) and after them (`loaded`). The row with the highest version is
-- valid, so read it with FINAL.
CREATE TABLE IF NOT EXISTS ${database}.load_file ${on_cluster}
(
    kind LowCardinality(String),
    unit String,
    run LowCardinality(String),
    source_file String,
    sha256 String,
    origin String,
    rows UInt64,
    first_at Nullable(DateTime64(9, 'UTC')),
    last_at Nullable(DateTime64(9, 'UTC')),
    state Enum8('loading' = 1, 'loaded' = 2),
    version UInt64
)
ENGINE = ${replicated}ReplacingMergeTree(version)
ORDER BY (kind, unit);
