WITH quantilesExactInclusive(0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(delta) AS q
SELECT
    on_day AS day,
    cdn,
    at_vantage AS vantage,
    count() AS probes,
    q[1] AS p10_us,
    q[2] AS p25_us,
    q[3] AS p50_us,
    q[4] AS p75_us,
    q[5] AS p90_us,
    q[6] AS p99_us
FROM
(
    SELECT
        if({by_day:Bool}, day, NULL) AS on_day,
        assumeNotNull(cdn) AS cdn,
        if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
        assumeNotNull(sh_us - ack_us) AS delta
    FROM ${database}.quic_probe
    WHERE ${asked}
        AND (outcome = 'iack' OR ({with_coalesced:Bool} AND outcome = 'coalesced'))
        AND attempts = 1 AND ack_us IS NOT NULL AND sh_us IS NOT NULL
)
GROUP BY on_day, cdn, at_vantage
ORDER BY day, cdn = 'Others', cdn, vantage
