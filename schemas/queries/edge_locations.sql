SELECT
    toString(quic_handshake.vantage) AS vantage,
    coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
    assumeNotNull(toString(quic_handshake.edge_location)) AS location,
    count() AS handshakes,
    uniqExactIf(domain, domain != '') AS names,
    uniqExact(ip) AS addresses,
    handshakes / sum(handshakes) OVER (PARTITION BY vantage, cdn) AS share,
    quantileExact(0.5)(rtt_min_us) AS rtt_min_p50_us
FROM ${database}.quic_handshake
WHERE quic_handshake.edge_location IS NOT NULL
    AND ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR quic_handshake.vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY vantage, cdn, location
ORDER BY vantage, cdn = 'Others', cdn, handshakes DESC, location
LIMIT {limit:UInt32}
