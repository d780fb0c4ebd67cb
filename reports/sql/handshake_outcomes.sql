-- How the handshakes of the run ended, by CDN, and how long completed ones took. An address without origin AS is in Others.
SELECT
    coalesce(CAST(h.cdn AS Nullable(String)), 'Others') AS cdn,
    count() AS handshakes,
    uniqExactIf(domain, domain != '') AS names,
    countIf(outcome = 'done') AS done,
    countIf(outcome IN ('handshake_failed', 'malformed', 'retry_loop', 'version_negotiation', 'closed')) AS failed,
    countIf(outcome IN ('timeout', 'refused')) AS unanswered,
    countIf(outcome IN ('blocked', 'send_failed')) AS not_sent,
    countIf(http = 'response') AS responses,
    countIf(status BETWEEN 200 AND 299) AS successful,
    countIf(h.group = 'X25519MLKEM768') AS post_quantum,
    quantilesExactInclusive(0.25, 0.5, 0.75)(handshake_us) AS handshake_quartiles_us,
    quantilesExactInclusive(0.25, 0.5, 0.75)(response_us) AS response_quartiles_us
FROM ${database}.quic_handshake AS h
WHERE run = {run:String}
GROUP BY cdn
ORDER BY cdn = 'Others', cdn
