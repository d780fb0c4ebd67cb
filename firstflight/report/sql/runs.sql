-- All runs in the store that sent probes, newest first, and the share of instant ACKs by outcome over all CDNs.
SELECT
    run,
    toDate(min(sent_at)) AS first_day,
    toDate(max(sent_at)) AS last_day,
    uniqExact(vantage) AS vantages,
    uniqExact(repetition) AS repetitions,
    count() AS probes,
    countIf(outcome = 'iack') AS iack,
    countIf(outcome IN ('iack', 'coalesced', 'sh_first')) AS answered,
    if(answered = 0, NULL, iack / answered) AS iack_share
FROM ${database}.quic_probe
GROUP BY run
ORDER BY min(sent_at) DESC, run DESC
LIMIT 50
