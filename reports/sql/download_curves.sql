-- Successful TCP downloads, a row for each curve of Figures 1 to 3: quantiles (5, 10, 25, 50, 75, 90, 95 %), and in
-- `at_most` how many downloads have at most 10 ^ (steps / 40) bits per second, or us. Figure 3n has the mean of each
-- name as one sample. Downloads that this machine may have limited are counted only in `limited`.
WITH samples AS
(
    SELECT
        vantage,
        toString(d.set) AS of_set,
        coalesce(CAST(d.cdn AS Nullable(String)), 'Others') AS of_cdn,
        domain,
        coalesce(client_limited, false) AS is_limited,
        toFloat64(anrw_throughput_bps) AS bps,
        toFloat64(rtt_mean_us) AS rtt_us
    FROM ${database}.download AS d
    WHERE run = {run:String} AND outcome IN ('done', 'stopped_limit') AND protocol = 'tcp'
)
SELECT
    figure,
    vantage,
    curve,
    countIf(NOT is_limited) AS samples,
    uniqExactIf(domain, NOT is_limited) AS names,
    countIf(is_limited) AS limited,
    quantilesExactInclusiveIf(0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)(value, NOT is_limited) AS quantiles,
    sumMapIf([toInt32(ceil(40 * log10(value) - 0.000001))], [toUInt64(1)], NOT is_limited) AS counted,
    counted.1 AS steps,
    arrayCumSum(counted.2) AS at_most
FROM
(
    SELECT '1a' AS figure, vantage, 'all' AS curve, domain, is_limited, bps AS value FROM samples WHERE of_set != 'warmup'
    UNION ALL
    SELECT '1b', vantage, 'all', domain, is_limited, rtt_us FROM samples WHERE of_set != 'warmup'
    UNION ALL
    SELECT '2', vantage, of_set, domain, is_limited, bps FROM samples
    UNION ALL
    SELECT '3', vantage, of_cdn, domain, is_limited, bps FROM samples WHERE of_set != 'warmup'
    UNION ALL
    SELECT '3n', vantage, of_cdn, domain, is_limited, avg(bps) FROM samples WHERE of_set != 'warmup'
    GROUP BY vantage, of_cdn, domain, is_limited
)
WHERE value > 0
GROUP BY figure, vantage, curve
ORDER BY figure, curve = 'Others', curve, vantage
