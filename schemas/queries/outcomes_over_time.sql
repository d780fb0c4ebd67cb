SELECT
    period,
    counts.1 AS outcome,
    counts.2 AS probes,
    all_probes,
    probes / all_probes AS share
FROM
(
    SELECT
        ${period} AS period,
        sum(probe_day.probes) AS all_probes,
        arrayJoin([
            ('iack', sum(probe_day.iack)), ('coalesced', sum(probe_day.coalesced)), ('sh_first', sum(probe_day.sh_first)),
            ('closed', sum(probe_day.closed)), ('ack_only', sum(probe_day.ack_only)), ('retry', sum(probe_day.retry)),
            ('version_negotiation', sum(probe_day.version_negotiation)), ('refused', sum(probe_day.refused)),
            ('malformed', sum(probe_day.malformed)), ('timeout', sum(probe_day.timeout)),
            ('send_failed', sum(probe_day.send_failed)), ('blocked', sum(probe_day.blocked))
        ]) AS counts
    FROM ${database}.probe_day_all AS probe_day
    WHERE ({vantage:String} = '' OR probe_day.vantage = {vantage:String})
        AND ({cdn:String} = '' OR probe_day.cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
        AND ({all_addresses:Bool} OR (first_address AND family = 4))
    GROUP BY period
)
WHERE probes > 0
ORDER BY period, probes DESC, outcome
