-- Years of runs: each table of results in parts of a month, and probes sorted by name first, so that a name over time
-- lies in one place and repeats itself away (measured: docs/design/0004). `run` tells months apart by its index.
--
-- Tables are filled anew and exchanged. Until the exchange the old one is whole, after it the new one is; so all of
-- this can be repeated from the start wherever it was broken off.
ALTER TABLE ${database}.quic_probe ${on_cluster}
    ADD COLUMN IF NOT EXISTS day Date DEFAULT coalesce(
        toDate(sent_at), toDate(parseDateTimeBestEffortOrNull(substring(run, 1, 16), 'UTC')), toDate(0));

DROP TABLE IF EXISTS ${database}.quic_probe_new ${on_cluster} SYNC;

CREATE TABLE ${database}.quic_probe_new ${on_cluster} AS ${database}.quic_probe
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (domain, ip, port, vantage, run, repetition)
SETTINGS default_compression_codec = 'ZSTD(1)';

ALTER TABLE ${database}.quic_probe_new ${on_cluster} ADD INDEX IF NOT EXISTS of_run run TYPE minmax;

INSERT INTO ${database}.quic_probe_new SELECT * FROM ${database}.quic_probe
SETTINGS asterisk_include_alias_columns = 0, max_partitions_per_insert_block = 0;

EXCHANGE TABLES ${database}.quic_probe AND ${database}.quic_probe_new ${on_cluster};

DROP TABLE IF EXISTS ${database}.quic_probe_new ${on_cluster} SYNC;

DROP TABLE IF EXISTS ${database}.dns_answer_new ${on_cluster} SYNC;

CREATE TABLE ${database}.dns_answer_new ${on_cluster} AS ${database}.dns_answer
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(asked_at)
ORDER BY (run, domain, qtype, vantage, repetition)
SETTINGS default_compression_codec = 'ZSTD(1)';

INSERT INTO ${database}.dns_answer_new SELECT * FROM ${database}.dns_answer
SETTINGS asterisk_include_alias_columns = 0, max_partitions_per_insert_block = 0;

EXCHANGE TABLES ${database}.dns_answer AND ${database}.dns_answer_new ${on_cluster};

DROP TABLE IF EXISTS ${database}.dns_answer_new ${on_cluster} SYNC;

DROP TABLE IF EXISTS ${database}.quic_connection_new ${on_cluster} SYNC;

CREATE TABLE ${database}.quic_connection_new ${on_cluster} AS ${database}.quic_connection
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(fromUnixTimestamp64Nano(start_time_ns, 'UTC'))
ORDER BY (run, server_ip, server_port, vantage, repetition, start_time_ns)
SETTINGS default_compression_codec = 'ZSTD(1)';

INSERT INTO ${database}.quic_connection_new SELECT * FROM ${database}.quic_connection
SETTINGS asterisk_include_alias_columns = 0, max_partitions_per_insert_block = 0;

EXCHANGE TABLES ${database}.quic_connection AND ${database}.quic_connection_new ${on_cluster};

DROP TABLE IF EXISTS ${database}.quic_connection_new ${on_cluster} SYNC;

-- The roll-up of probes: what dashboards and Table 1 ask for, without a look at the probes themselves.
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
    ack_us AggregateFunction(quantilesDD(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99), Int64),
    iack_to_sh_us AggregateFunction(quantilesDD(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99), Int64),
    sh_to_handshake_us AggregateFunction(quantilesDD(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99), Int64),
    ack_delay_us AggregateFunction(quantilesDD(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99), Int64)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (day, run, vantage, repetition);

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
ORDER BY (run, vantage, repetition);

-- What was loaded before is rolled up here; from now on the loader does it (schemas/derived).
TRUNCATE TABLE ${database}.probe_day ${on_cluster};

INSERT INTO ${database}.probe_day
(
    run, vantage, repetition, day, cdn, family, first_address,
    probes, sent, iack, coalesced, sh_first, closed, ack_only, retry, version_negotiation, refused, malformed,
    timeout, send_failed, blocked, counted, instant, names, first_at, last_at, first_iack_at,
    iack_delays, spurious, amplified, amplified_above_3, amplification_max,
    ack_us, iack_to_sh_us, sh_to_handshake_us, ack_delay_us
)
SELECT
    run,
    vantage,
    repetition,
    day,
    cdn,
    if(isIPv4String(ip), 4, 6) AS family,
    ifNull(address_rank = 0, false) AS first_address,
    count(),
    countIf(attempts > 0),
    countIf(outcome = 'iack'),
    countIf(outcome = 'coalesced'),
    countIf(outcome = 'sh_first'),
    countIf(outcome = 'closed'),
    countIf(outcome = 'ack_only'),
    countIf(outcome = 'retry'),
    countIf(outcome = 'version_negotiation'),
    countIf(outcome = 'refused'),
    countIf(outcome = 'malformed'),
    countIf(outcome = 'timeout'),
    countIf(outcome = 'send_failed'),
    countIf(outcome = 'blocked'),
    countIf(is_counted),
    countIf(is_counted AND outcome != 'coalesced'),
    uniqExact(domain),
    min(sent_at),
    max(sent_at),
    minIf(sent_at, outcome = 'iack'),
    countIf(is_iack_delay),
    countIf(is_iack_delay AND sh - ack >= 3 * ack),
    countIf(is_amplified),
    countIf(is_amplified AND bytes_received > 3 * bytes_sent),
    maxOrNullIf(toFloat32(bytes_received / bytes_sent), is_amplified),
    quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(ack, attempts = 1 AND has_ack),
    quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(sh - ack, is_iack_delay),
    quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(
        assumeNotNull(after_sh), attempts = 1 AND after_sh IS NOT NULL),
    quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(
        assumeNotNull(delay), attempts = 1 AND delay IS NOT NULL)
FROM
(
    SELECT
        run, vantage, repetition, day, cdn, ip, address_rank, domain, outcome, attempts, sent_at,
        bytes_received, bytes_sent,
        sh_to_handshake_us AS after_sh,
        ack_delay_raw * 8 AS delay,
        assumeNotNull(ack_us) AS ack,
        assumeNotNull(sh_us) AS sh,
        ack_us IS NOT NULL AS has_ack,
        has_ack AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false) AS is_counted,
        has_ack AND sh_us IS NOT NULL AND outcome = 'iack' AND attempts = 1 AS is_iack_delay,
        NOT retried AND bytes_sent > 0 AS is_amplified
    FROM ${database}.quic_probe
    WHERE true
)
GROUP BY run, vantage, repetition, day, cdn, family, first_address;

TRUNCATE TABLE ${database}.probe_unit ${on_cluster};

INSERT INTO ${database}.probe_unit
(
    run, vantage, repetition, cdn, family, first_address, first_at, names, names_answered, names_counted,
    names_instant
)
SELECT
    run,
    vantage,
    repetition,
    cdn,
    if(isIPv4String(ip), 4, 6) AS family,
    ifNull(address_rank = 0, false) AS first_address,
    min(sent_at) AS first_at,
    uniqExact(domain) AS names,
    uniqExactIf(domain, outcome IN ('iack', 'coalesced', 'sh_first')) AS names_answered,
    uniqExactIf(domain, is_counted) AS names_counted,
    uniqExactIf(domain, is_counted AND outcome != 'coalesced') AS names_instant
FROM
(
    SELECT *, ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false) AS is_counted
    FROM ${database}.quic_probe
    WHERE true
)
GROUP BY run, vantage, repetition, cdn, family, first_address;
