-- What arrived for a download, and what its captures lack. Rows of older versions do not have it.
ALTER TABLE ${database}.download ${on_cluster}
    MODIFY COLUMN outcome Enum8('done' = 1, 'stopped_limit' = 2, 'short' = 3, 'changed' = 4, 'http_error' = 5, 'redirect' = 6, 'timeout' = 7,
        'connect_failed' = 8, 'tls_failed' = 9, 'reset' = 10, 'no_address' = 11, 'blocked' = 12, 'wrong_options' = 13, 'skipped' = 14, 'failed' = 15, 'wire_limit' = 16),
    ADD COLUMN IF NOT EXISTS wire_bytes Nullable(Int64) AFTER udp_drops,
    ADD COLUMN IF NOT EXISTS capture_cut Nullable(Int64) AFTER capture_file;
