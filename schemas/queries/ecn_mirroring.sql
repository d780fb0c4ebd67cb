SELECT
    assumeNotNull(cdn) AS cdn,
    at_vantage AS vantage,
    count() AS acknowledged,
    countIf(ecn_verdict != 'not_mirrored') AS mirrored,
    mirrored / acknowledged AS mirrored_share,
    countIf(ecn_verdict = 'valid') AS valid,
    valid / acknowledged AS valid_share,
    countIf(received_ect0 + received_ect1 + received_ce > 0) AS marking
FROM
(
    SELECT
        cdn,
        if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
        ecn_verdict,
        received_ect0,
        received_ect1,
        received_ce
    FROM ${database}.quic_probe
    WHERE ${asked}
        AND ecn_verdict IS NOT NULL
)
GROUP BY cdn, at_vantage
ORDER BY cdn = 'Others', cdn, vantage
