-- Counts by day, CDN and vantage point. All names come from the roll-up, the top names of a list from the probes.
SELECT
    day,
    probe_day.cdn AS cdn,
    toString(probe_day.vantage) AS vantage,
    toString(probe_day.run) AS run,
    probe_day.probes AS probes,
    probe_day.counted AS counted,
    probe_day.instant AS instant,
    probe_day.iack + probe_day.coalesced + probe_day.sh_first AS answered,
    probe_day.iack AS iack
FROM ${database}.probe_day_all AS probe_day
WHERE {top:UInt32} = 0
    AND probe_day.cdn IS NOT NULL
    AND ({vantage:String} = '' OR probe_day.vantage = {vantage:String})
    AND ({cdn:String} = '' OR probe_day.cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
    AND ({all_addresses:Bool} OR (first_address AND family = 4))
UNION ALL
SELECT
    day,
    CAST(quic_probe.cdn, 'Nullable(String)') AS cdn,
    toString(quic_probe.vantage) AS vantage,
    toString(quic_probe.run) AS run,
    count() AS probes,
    countIf(ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false)) AS counted,
    countIf(ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false)
        AND outcome != 'coalesced') AS instant,
    countIf(outcome IN ('iack', 'coalesced', 'sh_first')) AS answered,
    countIf(outcome = 'iack') AS iack
FROM ${database}.quic_probe
WHERE {top:UInt32} > 0 AND rank <= {top:UInt32}
    AND quic_probe.cdn IS NOT NULL
    AND ({vantage:String} = '' OR quic_probe.vantage = {vantage:String})
    AND ({cdn:String} = '' OR quic_probe.cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
    AND ({all_addresses:Bool} OR (address_rank = 0 AND family = 4))
GROUP BY day, cdn, vantage, run
