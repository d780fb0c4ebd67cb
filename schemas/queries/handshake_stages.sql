SELECT
    coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
    outcome,
    stage,
    count() AS handshakes,
    uniqExactIf(domain, domain != '') AS names,
    uniqExact(ip) AS addresses,
    countIf(retry) / nullIf(countIf(retry IS NOT NULL), 0) AS retry_share,
    handshakes / sum(handshakes) OVER (PARTITION BY cdn) AS share_of_cdn
FROM ${database}.quic_handshake
WHERE ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY cdn, outcome, stage
ORDER BY cdn = 'Others', cdn, handshakes DESC, outcome, stage
