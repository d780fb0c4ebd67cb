-- Probes with an ECN mark, and of a reserved version. Rows of older versions do not have them.
ALTER TABLE ${database}.quic_probe ${on_cluster}
    ADD COLUMN IF NOT EXISTS version_grease Nullable(UInt16) AFTER version_list,
    ADD COLUMN IF NOT EXISTS vn_us Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER version_grease,
    ADD COLUMN IF NOT EXISTS ecn LowCardinality(Nullable(String)) AFTER vn_us,
    ADD COLUMN IF NOT EXISTS ack_ect0 Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER ecn,
    ADD COLUMN IF NOT EXISTS ack_ect1 Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER ack_ect0,
    ADD COLUMN IF NOT EXISTS ack_ce Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER ack_ect1,
    ADD COLUMN IF NOT EXISTS received_ect0 Nullable(UInt16) AFTER ack_ce,
    ADD COLUMN IF NOT EXISTS received_ect1 Nullable(UInt16) AFTER received_ect0,
    ADD COLUMN IF NOT EXISTS received_ce Nullable(UInt16) AFTER received_ect1,
    ADD COLUMN IF NOT EXISTS ecn_verdict LowCardinality(Nullable(String)) AFTER received_ce;
