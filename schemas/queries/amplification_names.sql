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
WHERE ({run:String} IN ('', run) OR ({run:String} = 'newest' AND run IN (SELECT run FROM ${database}.newest_run)))
    AND {vantage:String} IN ('', vantage)
    AND {cdn:String} IN ('', cdn)
    AND day BETWEEN {since:Date} AND {until:Date}
    AND ({all_addresses:Bool} OR (address_rank = 0 AND position(ip, ':') = 0))
    AND NOT retried AND bytes_received > {above:Float64} * bytes_sent AND bytes_sent > 0
ORDER BY amplification DESC, domain, ip, vantage, run, repetition
LIMIT {limit:UInt32}
