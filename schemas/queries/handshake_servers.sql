SELECT
    coalesce(CAST(cdn AS Nullable(String)), 'Others') AS of_cdn,
    CAST(quic_handshake.server_header AS Nullable(String)) AS server,
    count() AS responses,
    countIf(status BETWEEN 200 AND 299) AS successful,
    uniqExact(domain) AS names,
    uniqExact(ip) AS addresses,
    responses / sum(responses) OVER (PARTITION BY of_cdn) AS share_of_cdn
FROM ${database}.quic_handshake
WHERE http = 'response'
    AND ${of_run}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR of_cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY of_cdn, server
ORDER BY of_cdn = 'Others', of_cdn, responses DESC, server
LIMIT {limit:UInt32}
