-- A part of this many columns is written through buffers of this size for each of them, by inserts and by merges: with
-- the usual megabyte the loader's memory is a third higher. Blocks end at 64 KiB as before, so the size on disk stays.
ALTER TABLE ${database}.quic_probe ${on_cluster} MODIFY SETTING max_compress_block_size = 131072;
