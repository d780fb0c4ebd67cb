SELECT
    on_day AS day,
    cdn,
    at_vantage AS vantage,
    count() AS probes,
    countIf(bytes_received > {above:Float64} * bytes_sent) AS above,
    above / probes AS above_share,
    max(bytes_received / bytes_sent) AS highest
FROM
(
    SELECT
        if({by_day:Bool}, day, NULL) AS on_day,
        assumeNotNull(cdn) AS cdn,
        if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
        bytes_received,
        bytes_sent
    FROM ${database}.quic_probe
    WHERE ${asked}
        AND NOT retried AND bytes_sent > 0
)
GROUP BY on_day, cdn, at_vantage
ORDER BY day, cdn = 'Others', cdn, vantage
