SELECT
    coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
    CAST(quic_handshake.stack AS Nullable(String)) AS stack,
    CAST(quic_handshake.min_ack_delay_id AS Nullable(String)) AS code_point,
    quic_handshake.min_ack_delay_us AS min_ack_delay_us,
    count() AS handshakes,
    uniqExactIf(domain, domain != '') AS names,
    uniqExact(ip) AS addresses,
    handshakes / sum(handshakes) OVER (PARTITION BY cdn) AS share_of_cdn
FROM ${database}.quic_handshake
WHERE transport_parameters IS NOT NULL
    AND ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY cdn, stack, code_point, min_ack_delay_us
ORDER BY cdn = 'Others', cdn, code_point IS NULL, handshakes DESC, stack, code_point, min_ack_delay_us
LIMIT {limit:UInt32}
