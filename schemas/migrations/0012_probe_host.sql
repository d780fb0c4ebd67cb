ALTER TABLE ${database}.quic_probe ${on_cluster}
    ADD COLUMN IF NOT EXISTS host LowCardinality(Nullable(String)) AFTER tool_version,
    ADD COLUMN IF NOT EXISTS worker LowCardinality(Nullable(String)) AFTER host;
