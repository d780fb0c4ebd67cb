-- Throughput of successful downloads by size of the file, set and vantage point: quartiles in bits per second.
-- Downloads that this machine may have limited are counted only in `limited`.
SELECT
    vantage,
    multiIf(body_bytes < 2000000, 'below 2 MB', body_bytes < 5000000, '2 to 5 MB', '5 MB and more') AS size,
    toString(d.set) AS of_set,
    countIf(NOT is_limited) AS downloads,
    uniqExactIf(domain, NOT is_limited) AS names,
    countIf(is_limited) AS limited,
    quantilesExactInclusiveIf(0.25, 0.5, 0.75)(toFloat64(d.anrw_throughput_bps), NOT is_limited) AS quartiles_bps
FROM
(
    SELECT vantage, domain, body_bytes, `set`, anrw_throughput_bps, coalesce(client_limited, false) AS is_limited
    FROM ${database}.download
    WHERE run = {run:String} AND outcome IN ('done', 'stopped_limit') AND anrw_throughput_bps > 0
) AS d
GROUP BY vantage, size, d.set
ORDER BY vantage, indexOf(['below 2 MB', '2 to 5 MB', '5 MB and more'], size), d.set
