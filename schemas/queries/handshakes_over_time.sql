SELECT
    ${period} AS period,
    coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
    count() AS handshakes,
    countIf(outcome = 'done') AS done,
    countIf(outcome NOT IN ('blocked', 'send_failed')) AS sent,
    if(sent = 0, NULL, done / sent) AS done_share,
    countIf(stage = 'response') AS with_response
FROM ${database}.quic_handshake
WHERE ({vantage:String} = '' OR quic_handshake.vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY period, cdn
ORDER BY period, cdn = 'Others', cdn
