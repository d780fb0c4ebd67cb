WITH changed AS
(
    SELECT
        domain,
        countIf(day < {since:Date}) AS probes_before,
        countIf(day < {since:Date} AND outcome = 'iack') AS iack_before,
        countIf(day >= {since:Date}) AS probes_since,
        countIf(day >= {since:Date} AND outcome = 'iack') AS iack_since
    FROM ${database}.quic_probe
    WHERE outcome IN ('iack', 'coalesced', 'sh_first')
        AND ({vantage:String} = '' OR vantage = {vantage:String})
        AND day BETWEEN {from:Date} AND {until:Date}
        AND ({all_addresses:Bool} OR (address_rank = 0 AND family = 4))
    GROUP BY domain
    -- More than half of the answers before the date differ from more than half since.
    HAVING probes_before > 0 AND probes_since > 0
        AND ((2 * iack_before < probes_before AND 2 * iack_since > probes_since)
            OR (2 * iack_before > probes_before AND 2 * iack_since < probes_since))
    ORDER BY domain
    LIMIT {limit:UInt32}
)
-- The other columns are read only for these few names.
SELECT
    domain,
    argMaxIf((cdn,), sent_at, day < {since:Date}).1 AS cdn_before,
    argMaxIf((cdn,), sent_at, day >= {since:Date}).1 AS cdn_since,
    if(2 * iack_before > probes_before, 'instant', 'waiting') AS before,
    if(2 * iack_since > probes_since, 'instant', 'waiting') AS since,
    countIf(day < {since:Date}) AS probes_before,
    countIf(day < {since:Date} AND outcome = 'iack') AS iack_before,
    countIf(day >= {since:Date}) AS probes_since,
    countIf(day >= {since:Date} AND outcome = 'iack') AS iack_since,
    maxIf(day, day < {since:Date}) AS last_day_before,
    if(2 * iack_since > probes_since,
        minIf(day, day >= {since:Date} AND outcome = 'iack'),
        minIf(day, day >= {since:Date} AND outcome != 'iack')) AS first_day_since
FROM ${database}.quic_probe
WHERE domain IN (SELECT domain FROM changed)
    AND outcome IN ('iack', 'coalesced', 'sh_first')
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND day BETWEEN {from:Date} AND {until:Date}
    AND ({all_addresses:Bool} OR (address_rank = 0 AND family = 4))
GROUP BY domain
ORDER BY domain
LIMIT {limit:UInt32}
