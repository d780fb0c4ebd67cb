SELECT
    domain,
    ip,
    cdn,
    vantage,
    run,
    repetition,
    sent_at,
    outcome,
    bytes_sent,
    bytes_received,
    bytes_received / bytes_sent AS amplification
FROM ${database}.quic_probe
WHERE ${of_run}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
    AND ({all_addresses:Bool} OR (address_rank = 0 AND family = 4))
    AND NOT retried AND bytes_received > {above:Float64} * bytes_sent AND bytes_sent > 0
ORDER BY amplification DESC, domain, ip, vantage, run, repetition
LIMIT {limit:UInt32}
