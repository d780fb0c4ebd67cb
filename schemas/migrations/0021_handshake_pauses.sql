-- Pauses of networks hold for handshakes too.
ALTER TABLE ${database}.quic_handshake ${on_cluster}
    ADD COLUMN IF NOT EXISTS network_paused_at Nullable(DateTime64(9, 'UTC')) CODEC(T64, ZSTD(1)) AFTER second_status;
