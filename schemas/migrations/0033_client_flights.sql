-- Flights of the client and the wait of the server for its address to be validated. Rows of older versions do not have them.
ALTER TABLE ${database}.quic_connection ${on_cluster}
    ADD COLUMN IF NOT EXISTS first_request_stream_us Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER first_stream_us,
    ADD COLUMN IF NOT EXISTS blocked_us Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER capture_side,
    ADD COLUMN IF NOT EXISTS probes Nullable(UInt32) CODEC(T64, ZSTD(1)) AFTER blocked_us,
    ADD COLUMN IF NOT EXISTS default_pto_us Nullable(Int64) CODEC(T64, ZSTD(1)) AFTER probes,
    ADD COLUMN IF NOT EXISTS second_flight_first Nullable(UInt32) CODEC(T64, ZSTD(1)) AFTER default_pto_us,
    ADD COLUMN IF NOT EXISTS second_flight_last Nullable(UInt32) CODEC(T64, ZSTD(1)) AFTER second_flight_first;
