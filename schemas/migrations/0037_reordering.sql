-- Reordering, loss by netem, delays of each direction, and the certificate's keys. Rows of older versions do not have them.
ALTER TABLE ${database}.testbed_trial ${on_cluster}
    ADD COLUMN IF NOT EXISTS delay_to_server_ms Nullable(Float64) AFTER rtt_ms,
    ADD COLUMN IF NOT EXISTS certificate_key LowCardinality(Nullable(String)) AFTER certificate_bytes,
    ADD COLUMN IF NOT EXISTS netem_loss_to_client_percent Nullable(Float64) AFTER loss_percent,
    ADD COLUMN IF NOT EXISTS netem_loss_to_server_percent Nullable(Float64) AFTER netem_loss_to_client_percent,
    ADD COLUMN IF NOT EXISTS reorder_to_client Array(UInt32) AFTER drop_second_flight,
    ADD COLUMN IF NOT EXISTS reorder_to_server Array(UInt32) AFTER reorder_to_client,
    ADD COLUMN IF NOT EXISTS reorder_percent Nullable(Float64) AFTER reorder_to_server,
    ADD COLUMN IF NOT EXISTS reorder_ms Nullable(Float64) AFTER reorder_percent,
    ADD COLUMN IF NOT EXISTS reordered Nullable(UInt32) AFTER dropped;
