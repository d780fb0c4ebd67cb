-- Distinct names per unit (run, vantage point, repetition), CDN, address family and whether the address was the first
-- in the answer. Distinct counts cannot be summed, so this table has them for whole units. A first GROUP BY on the name
-- needs a third of the time of four counts of distinct names.
INSERT INTO ${database}.probe_unit
(
    run, vantage, repetition, cdn, family, first_address, first_at, names, names_answered, names_counted,
    names_instant
)
SELECT
    run,
    vantage,
    repetition,
    cdn,
    family,
    first_address,
    min(name_first_at) AS first_at,
    count() AS names,
    countIf(answered) AS names_answered,
    countIf(counted) AS names_counted,
    countIf(instant) AS names_instant
FROM
(
    SELECT
        run,
        vantage,
        repetition,
        cdn,
        family,
        ifNull(address_rank = 0, false) AS first_address,
        min(sent_at) AS name_first_at,
        max(outcome IN ('iack', 'coalesced', 'sh_first')) AS answered,
        max(ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false)) AS counted,
        max(ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false)
            AND outcome != 'coalesced') AS instant
    FROM ${database}.quic_probe
    WHERE {units}
    GROUP BY run, vantage, repetition, cdn, family, first_address, domain
)
GROUP BY run, vantage, repetition, cdn, family, first_address;
