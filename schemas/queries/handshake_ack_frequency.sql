SELECT
    coalesce(CAST(cdn AS Nullable(String)), 'Others') AS of_cdn,
    CAST(quic_handshake.stack AS Nullable(String)) AS named,
    CAST(quic_handshake.min_ack_delay_id AS Nullable(String)) AS code_point,
    quic_handshake.min_ack_delay_us AS min_ack_delay_us,
    count() AS handshakes,
    uniqExact(domain) AS names,
    uniqExact(ip) AS addresses,
    handshakes / sum(handshakes) OVER (PARTITION BY of_cdn) AS share_of_cdn
FROM ${database}.quic_handshake
WHERE transport_parameters IS NOT NULL
    AND ${of_run}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR of_cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY of_cdn, named, code_point, min_ack_delay_us
ORDER BY of_cdn = 'Others', of_cdn, code_point IS NULL, handshakes DESC, named, code_point, min_ack_delay_us
LIMIT {limit:UInt32}
