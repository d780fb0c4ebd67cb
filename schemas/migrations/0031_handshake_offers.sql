-- Encrypted ClientHello of handshakes: what was offered, and what the server wants to be offered; and whether it speaks
-- multipath. Rows of older versions offered no ECH, and have multipath in transport_parameters alone.
ALTER TABLE ${database}.quic_handshake ${on_cluster}
    ADD COLUMN IF NOT EXISTS ech_offered LowCardinality(Nullable(String)) AFTER alpn,
    ADD COLUMN IF NOT EXISTS ech_accepted Nullable(Bool) AFTER ech_offered,
    ADD COLUMN IF NOT EXISTS ech_retry_config_ids Array(UInt32) AFTER ech_accepted,
    ADD COLUMN IF NOT EXISTS ech_retry_public_names Array(String) CODEC(ZSTD(3)) AFTER ech_retry_config_ids,
    ADD COLUMN IF NOT EXISTS multipath_id LowCardinality(Nullable(String)) AFTER max_datagram_frame_size,
    ADD COLUMN IF NOT EXISTS multipath_value Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER multipath_id;
