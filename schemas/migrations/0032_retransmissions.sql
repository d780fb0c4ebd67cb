-- Servers that are listened to after their first answer. Rows of older versions do not have them.
ALTER TABLE ${database}.quic_probe ${on_cluster}
    ADD COLUMN IF NOT EXISTS listened_s Nullable(Float32) AFTER ecn_verdict,
    ADD COLUMN IF NOT EXISTS retransmissions Nullable(UInt16) AFTER listened_s,
    ADD COLUMN IF NOT EXISTS retransmission_us Array(UInt32) CODEC(ZSTD(1)) AFTER retransmissions;
