SELECT
    toString(quic_probe.run) AS run,
    toString(quic_probe.vantage) AS vantage,
    quic_probe.repetition AS repetition,
    formatDateTime(min(sent_at), '%F %T') AS first_sent,
    formatDateTime(max(sent_at), '%F %T') AS last_sent,
    count() AS probes,
    countIf(attempts > 0) AS sent,
    countIf(outcome IN ('iack', 'coalesced', 'sh_first')) AS answered,
    countIf(outcome = 'timeout') AS timeout,
    if(sent = 0, NULL, timeout / sent) AS timeout_share,
    countIf(outcome = 'send_failed') AS send_failed,
    countIf(outcome = 'blocked') AS blocked,
    countIf(network_paused_at IS NOT NULL) AS paused,
    uniqExactIf(asn, network_paused_at IS NOT NULL) AS paused_networks,
    any(clock_offset_us) AS clock_us
FROM ${database}.quic_probe
WHERE ({vantage:String} = '' OR quic_probe.vantage = {vantage:String})
    AND day BETWEEN {since:Date} AND {until:Date}
    AND quic_probe.run IN
    (
        SELECT probe_day.run
        FROM ${database}.probe_day_all AS probe_day
        WHERE ({vantage:String} = '' OR probe_day.vantage = {vantage:String})
            AND day BETWEEN {since:Date} AND {until:Date}
        GROUP BY probe_day.run
        ORDER BY max(day) DESC, probe_day.run DESC
        LIMIT {runs:UInt32}
    )
GROUP BY run, vantage, repetition
ORDER BY min(ifNull(sent_at, toDateTime64(0, 9, 'UTC'))) DESC, run DESC, vantage, repetition
