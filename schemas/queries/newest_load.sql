WITH loaded AS
(
    SELECT kind, first_at, last_at
    FROM ${database}.load_file FINAL
    WHERE state = 'loaded' AND kind IN ('quic_probe', 'watch_slot', 'quic_handshake', 'download')
)
SELECT
    (SELECT sum(version) FROM ${database}.load_file FINAL) AS changes,
    (SELECT count() FROM ${database}.quic_probe) AS probes,
    (SELECT count() FROM ${database}.watch_slot) AS planned_probes,
    (SELECT count() FROM ${database}.download) AS downloads,
    (SELECT count() FROM ${database}.quic_handshake) AS handshakes,
    (SELECT toUnixTimestamp64Milli(max(last_at)) FROM loaded) AS data_until_ms,
    (SELECT toUnixTimestamp64Milli(min(first_at)) FROM loaded WHERE kind = 'watch_slot') AS watch_since_ms,
    (SELECT toUnixTimestamp64Milli(max(last_at)) FROM loaded WHERE kind = 'watch_slot') AS watch_until_ms,
    (SELECT toUnixTimestamp64Milli(min(first_at)) FROM loaded WHERE kind = 'download') AS downloads_since_ms,
    (SELECT toUnixTimestamp64Milli(max(last_at)) FROM loaded WHERE kind = 'download') AS downloads_until_ms,
    (SELECT toUnixTimestamp64Milli(min(first_at)) FROM loaded WHERE kind = 'quic_handshake') AS handshakes_since_ms,
    (SELECT toUnixTimestamp64Milli(max(last_at)) FROM loaded WHERE kind = 'quic_handshake') AS handshakes_until_ms
