-- QUIC versions of handshakes: what both ends offered, and whether the connection changed its version. Null in rows of
-- older versions, which offered version 1 alone.
ALTER TABLE ${database}.quic_handshake ${on_cluster}
    ADD COLUMN IF NOT EXISTS versions_offered LowCardinality(Nullable(String)) AFTER version_list,
    ADD COLUMN IF NOT EXISTS versions_available LowCardinality(Nullable(String)) AFTER versions_offered,
    ADD COLUMN IF NOT EXISTS version_change LowCardinality(Nullable(String)) AFTER versions_available;
