-- A single server remembers the tokens of the last inserts, as replicated tables always do, so that what a loader sends
-- again after a broken connection is added once.
ALTER TABLE ${database}.quic_probe ${on_cluster} MODIFY SETTING non_replicated_deduplication_window = 1000;
ALTER TABLE ${database}.quic_connection ${on_cluster} MODIFY SETTING non_replicated_deduplication_window = 1000;
ALTER TABLE ${database}.dns_answer ${on_cluster} MODIFY SETTING non_replicated_deduplication_window = 1000;
ALTER TABLE ${database}.target ${on_cluster} MODIFY SETTING non_replicated_deduplication_window = 1000;
ALTER TABLE ${database}.as_prefix ${on_cluster} MODIFY SETTING non_replicated_deduplication_window = 1000;
ALTER TABLE ${database}.as_org ${on_cluster} MODIFY SETTING non_replicated_deduplication_window = 1000;
ALTER TABLE ${database}.probe_day ${on_cluster} MODIFY SETTING non_replicated_deduplication_window = 1000;
ALTER TABLE ${database}.probe_unit ${on_cluster} MODIFY SETTING non_replicated_deduplication_window = 1000;
ALTER TABLE ${database}.run ${on_cluster} MODIFY SETTING non_replicated_deduplication_window = 1000;
