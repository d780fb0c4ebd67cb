SELECT
    toString(vantage) AS vantage_point,
    coalesce(CAST(cdn AS Nullable(String)), 'Others') AS of_cdn,
    assumeNotNull(toString(quic_handshake.edge_location)) AS location,
    count() AS handshakes,
    uniqExact(domain) AS names,
    uniqExact(ip) AS addresses,
    handshakes / sum(handshakes) OVER (PARTITION BY vantage_point, of_cdn) AS share,
    quantileExact(0.5)(rtt_min_us) AS rtt_min_p50_us
FROM ${database}.quic_handshake
WHERE quic_handshake.edge_location IS NOT NULL
    AND ${of_run}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR of_cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY vantage_point, of_cdn, location
ORDER BY vantage_point, of_cdn = 'Others', of_cdn, handshakes DESC, location
LIMIT {limit:UInt32}
