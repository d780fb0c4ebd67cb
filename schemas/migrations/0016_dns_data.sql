-- Types beside A, AAAA and HTTPS, and what ECH configurations hold. Rows of older versions do not know it.
ALTER TABLE ${database}.dns_answer ${on_cluster}
    ADD COLUMN IF NOT EXISTS https_ech_config_ids Array(UInt32) AFTER https_ech,
    ADD COLUMN IF NOT EXISTS https_ech_public_names Array(String) CODEC(ZSTD(3)) AFTER https_ech_config_ids,
    ADD COLUMN IF NOT EXISTS data Nullable(String) CODEC(ZSTD(3)) AFTER https_ech_public_names;
