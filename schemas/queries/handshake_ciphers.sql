SELECT
    coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
    CAST(quic_handshake.group AS Nullable(String)) AS key_exchange,
    CAST(quic_handshake.cipher AS Nullable(String)) AS suite,
    count() AS handshakes,
    uniqExactIf(domain, domain != '') AS names,
    uniqExact(ip) AS addresses,
    countIf(hello_retry) / nullIf(countIf(hello_retry IS NOT NULL), 0) AS hello_retry_share,
    handshakes / sum(handshakes) OVER (PARTITION BY cdn) AS share_of_cdn
FROM ${database}.quic_handshake
WHERE outcome = 'done'
    AND ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY cdn, key_exchange, suite
ORDER BY cdn = 'Others', cdn, handshakes DESC, key_exchange, suite
