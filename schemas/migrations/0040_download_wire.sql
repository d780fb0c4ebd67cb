-- What arrived for a download, and what its captures lack. Rows of older versions do not have it.
ALTER TABLE ${database}.download ${on_cluster}
    ADD COLUMN IF NOT EXISTS wire_bytes Nullable(Int64) AFTER udp_drops,
    ADD COLUMN IF NOT EXISTS capture_cut Nullable(Int64) AFTER capture_file;
