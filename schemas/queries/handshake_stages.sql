SELECT
    coalesce(CAST(cdn AS Nullable(String)), 'Others') AS of_cdn,
    outcome,
    stage,
    count() AS handshakes,
    uniqExact(domain) AS names,
    uniqExact(ip) AS addresses,
    countIf(retry) / nullIf(countIf(retry IS NOT NULL), 0) AS retry_share,
    handshakes / sum(handshakes) OVER (PARTITION BY of_cdn) AS share_of_cdn
FROM ${database}.quic_handshake
WHERE ${of_run}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR of_cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY of_cdn, outcome, stage
ORDER BY of_cdn = 'Others', of_cdn, handshakes DESC, outcome, stage
