SELECT
    coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
    CAST(quic_handshake.server_header AS Nullable(String)) AS server,
    count() AS responses,
    countIf(status BETWEEN 200 AND 299) AS successful,
    uniqExactIf(domain, domain != '') AS names,
    uniqExact(ip) AS addresses,
    responses / sum(responses) OVER (PARTITION BY cdn) AS share_of_cdn
FROM ${database}.quic_handshake
WHERE http = 'response'
    AND ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY cdn, server
ORDER BY cdn = 'Others', cdn, responses DESC, server
LIMIT {limit:UInt32}
