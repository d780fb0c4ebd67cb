-- What the capture of a probe lacks because it reached its size limit. Rows of older versions do not have it.
ALTER TABLE ${database}.quic_probe ${on_cluster}
    ADD COLUMN IF NOT EXISTS capture_cut Nullable(Int64) AFTER capture_file;
