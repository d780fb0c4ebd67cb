SELECT
    on_day AS day,
    cdn,
    at_vantage AS vantage,
    count() AS probes,
    countIf(delta >= 3 * rtt) AS spurious,
    spurious / probes AS spurious_share,
    quantileExactInclusive(0.5)(rtt) AS rtt_p50_us,
    quantileExactInclusive(0.5)(delta) AS ack_to_sh_p50_us
FROM
(
    SELECT
        if({by_day:Bool}, day, NULL) AS on_day,
        assumeNotNull(cdn) AS cdn,
        if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
        assumeNotNull(ack_us) AS rtt,
        assumeNotNull(sh_us - ack_us) AS delta
    FROM ${database}.quic_probe
    WHERE ${asked}
        AND outcome = 'iack' AND attempts = 1 AND ack_us IS NOT NULL AND sh_us IS NOT NULL
)
GROUP BY on_day, cdn, at_vantage
ORDER BY day, cdn = 'Others', cdn, vantage
