-- Throughput of QUIC connections, by the rules of tcp_flow. Rows of older versions do not know it.
ALTER TABLE ${database}.quic_connection ${on_cluster}
    ADD COLUMN IF NOT EXISTS ip_bytes_client Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER spurious_retransmissions_server,
    ADD COLUMN IF NOT EXISTS ip_bytes_server Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER ip_bytes_client,
    ADD COLUMN IF NOT EXISTS ip_length_guessed Nullable(Bool) AFTER ip_bytes_server,
    ADD COLUMN IF NOT EXISTS payload_bytes_client Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER ip_length_guessed,
    ADD COLUMN IF NOT EXISTS payload_bytes_server Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER payload_bytes_client,
    ADD COLUMN IF NOT EXISTS duration_us Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER payload_bytes_server,
    ADD COLUMN IF NOT EXISTS anrw_throughput_bps Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER duration_us,
    ADD COLUMN IF NOT EXISTS anrw_goodput_bps Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER anrw_throughput_bps,
    ADD COLUMN IF NOT EXISTS download_throughput_bps Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER anrw_goodput_bps,
    ADD COLUMN IF NOT EXISTS upload_throughput_bps Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER download_throughput_bps,
    ADD COLUMN IF NOT EXISTS application_goodput_bps Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER upload_throughput_bps,
    ADD COLUMN IF NOT EXISTS retransmitted_bytes_client Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER application_goodput_bps,
    ADD COLUMN IF NOT EXISTS retransmitted_bytes_server Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER retransmitted_bytes_client,
    ADD COLUMN IF NOT EXISTS retransmission_rate Nullable(Float64) AFTER retransmitted_bytes_server;
