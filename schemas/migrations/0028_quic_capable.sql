-- Whether a file is there over HTTP/3, asked before its QUIC downloads. Rows of older versions do not have it.
ALTER TABLE ${database}.download ${on_cluster}
    ADD COLUMN IF NOT EXISTS quic_capable Nullable(Bool) AFTER outcome;
