-- The most frequent reasons for which the strict way excludes probes: close code and reason, ICMP, the prober's note.
SELECT
    outcome,
    close_code,
    close_reason,
    if(icmp_type IS NULL, NULL, concat(toString(icmp_type), '/', toString(icmp_code))) AS icmp,
    detail,
    count() AS probes,
    uniqExact(domain) AS names
FROM ${database}.quic_probe
WHERE run = {run:String} AND day BETWEEN {first:Date} AND {last:Date}
    AND cdn IS NOT NULL AND address_rank = 0 AND family = 4
    AND outcome NOT IN ('iack', 'coalesced', 'sh_first')
GROUP BY outcome, close_code, close_reason, icmp, detail
ORDER BY probes DESC, outcome, close_code, close_reason, icmp, detail
LIMIT 20
