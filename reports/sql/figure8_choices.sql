-- The days and vantage points that Figure 8 can show, ordered by number of CDNs that send instant ACKs, number of
-- probes, and day.
SELECT
    vantage,
    day,
    uniqExactIf(cdn, outcome = 'iack') AS cdns,
    countIf(outcome IN ('iack', 'coalesced')) AS probes
FROM ${database}.quic_probe
WHERE run = {run:String} AND day BETWEEN {first:Date} AND {last:Date}
    AND sent_at IS NOT NULL AND cdn IS NOT NULL AND address_rank = 0 AND family = 4
    AND attempts = 1
GROUP BY vantage, day
HAVING probes > 0
ORDER BY cdns DESC, probes DESC, day, vantage
