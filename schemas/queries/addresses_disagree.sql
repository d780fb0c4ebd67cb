-- First select names with both behaviours and an address that is not the first of an IPv4 answer. They are few, and
-- only they can disagree. A probe without a rank (from a watch) may have any address, so it counts as such an address.
WITH candidates AS
(
    SELECT domain
    FROM ${database}.quic_probe
    WHERE outcome IN ('iack', 'coalesced', 'sh_first')
        AND ${of_run}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
        AND day BETWEEN {since:Date} AND {until:Date}
    GROUP BY domain
    HAVING countIf(outcome = 'iack') > 0 AND countIf(outcome != 'iack') > 0
        AND countIf(ifNull(address_rank, 1) > 0 OR family = 6) > 0
)
SELECT
    run,
    vantage,
    repetition,
    domain,
    arraySort(groupUniqArrayIf(ip, outcome = 'iack')) AS instant,
    arraySort(groupUniqArrayIf(ip, outcome != 'iack')) AS waiting,
    arraySort(groupUniqArray(cdn)) AS cdns
FROM ${database}.quic_probe
WHERE domain IN (candidates)
    AND outcome IN ('iack', 'coalesced', 'sh_first')
    AND ${of_run}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY run, vantage, repetition, domain
HAVING length(instant) > 0 AND length(waiting) > 0 AND arrayUniq(arrayConcat(instant, waiting)) > 1
    AND ({cdn:String} = '' OR has(cdns, {cdn:String}))
ORDER BY run, vantage, repetition, domain
LIMIT {limit:UInt32}
