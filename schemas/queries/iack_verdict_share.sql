SELECT
    assumeNotNull(cdn) AS cdn,
    if({by_vantage:Bool}, iack_verdict.vantage, NULL) AS vantage,
    count() AS servers,
    countIf(verdict IS NOT NULL) AS known,
    countIf(verdict = 'iack') / nullIf(known, 0) AS iack_verdict_share,
    countIf(over_limit) / nullIf(countIf(over_limit IS NOT NULL), 0) AS over_limit_share,
    countIf(sends = 'iack' AND verdict = 'iack') AS iack_rightly,
    countIf(sends = 'iack' AND verdict = 'wait') AS iack_wrongly,
    countIf(sends = 'wait' AND verdict = 'wait') AS wait_rightly,
    countIf(sends = 'wait' AND verdict = 'iack') AS wait_wrongly,
    countIf(sends = 'both' AND verdict IS NOT NULL) AS both,
    quantileExactInclusive(0.5)(flight_bytes) AS flight_bytes_p50,
    quantileExactInclusive(0.5)(delay_us) AS delay_us_p50,
    quantileExactInclusiveIf(0.5)(gain_us, sends = 'wait' AND verdict = 'iack') AS missed_gain_us_p50
FROM ${database}.iack_verdict
WHERE iack_verdict.cdn IS NOT NULL
    AND ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR iack_verdict.vantage = {vantage:String})
    AND ({cdn:String} = '' OR iack_verdict.cdn = {cdn:String})
GROUP BY cdn, vantage
ORDER BY cdn = 'Others', cdn, vantage
