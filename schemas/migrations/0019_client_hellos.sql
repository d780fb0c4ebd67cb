-- What a ClientHello in several datagrams was answered with, before the rest of it had come and then.
ALTER TABLE ${database}.quic_handshake ${on_cluster}
    ADD COLUMN IF NOT EXISTS sni Nullable(Bool) AFTER server_cid,
    ADD COLUMN IF NOT EXISTS hello_datagrams Nullable(UInt8) AFTER sni,
    ADD COLUMN IF NOT EXISTS partial_ack_us Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER first_answer,
    ADD COLUMN IF NOT EXISTS first_ack_datagrams LowCardinality(Nullable(String)) AFTER partial_ack_us,
    ADD COLUMN IF NOT EXISTS ack_covers_hello Nullable(Bool) AFTER first_ack_datagrams,
    ADD COLUMN IF NOT EXISTS first_answer_any_ack LowCardinality(Nullable(String)) AFTER ack_covers_hello;
