SELECT
    assumeNotNull(cdn) AS cdn,
    at_vantage AS vantage,
    count() AS probes,
    countIf(outcome = 'version_negotiation') AS negotiated,
    negotiated / probes AS negotiated_share,
    countIf(version_grease > 0) AS greased,
    quantileExactOrNullIf(0.5)(vn, has_vn) AS vn_p50_us,
    quantileExactOrNullIf(0.9)(vn, has_vn) AS vn_p90_us
FROM
(
    SELECT
        cdn,
        if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
        outcome,
        version_grease,
        assumeNotNull(vn_us) AS vn,
        vn_us IS NOT NULL AND attempts = 1 AS has_vn
    FROM ${database}.quic_probe
    WHERE ${asked}
        AND ifNull(version LIKE '0x_a_a_a_a', false)
)
GROUP BY cdn, at_vantage
ORDER BY cdn = 'Others', cdn, vantage
