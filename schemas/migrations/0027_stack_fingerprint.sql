-- Order and fitting values of transport parameters, by which unknown stacks are grouped. Servers that permute
-- them have many.
ALTER TABLE ${database}.quic_handshake ${on_cluster}
    ADD COLUMN IF NOT EXISTS stack_fingerprint Nullable(String) CODEC(ZSTD(3)) AFTER stack;
