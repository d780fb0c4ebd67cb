-- Launch times for datagrams that a server sends as one. Rows of older versions do not have it.
ALTER TABLE ${database}.testbed_trial ${on_cluster}
    ADD COLUMN IF NOT EXISTS gso_paced Nullable(Bool) AFTER gso;
