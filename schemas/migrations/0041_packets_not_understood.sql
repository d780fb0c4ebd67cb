-- Packets with frames that were not understood. Rows of older versions do not have it.
ALTER TABLE ${database}.quic_connection ${on_cluster}
    ADD COLUMN IF NOT EXISTS packets_not_understood Nullable(UInt32) CODEC(T64, ZSTD(1)) AFTER undecrypted_packets;
