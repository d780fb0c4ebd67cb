-- How large the server's first flight is. Rows of older versions do not know it.
ALTER TABLE ${database}.quic_handshake ${on_cluster}
    ADD COLUMN IF NOT EXISTS bytes_received_handshake Nullable(UInt32) CODEC(T64, ZSTD(1)) AFTER bytes_received_unvalidated;
