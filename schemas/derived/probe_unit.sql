-- Distinct names per unit (run, vantage point, repetition), CDN, address family and whether the address was the first
-- of its answer. They cannot be added up over anything, so a unit's names stand here whole.
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
    ifNull(address_rank = 0, false) AS first_address,
    min(sent_at) AS first_at,
    uniqExact(domain) AS names,
    uniqExactIf(domain, outcome IN ('iack', 'coalesced', 'sh_first')) AS names_answered,
    uniqExactIf(domain, is_counted) AS names_counted,
    uniqExactIf(domain, is_counted AND outcome != 'coalesced') AS names_instant
FROM
(
    SELECT *, ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false) AS is_counted
    FROM ${database}.quic_probe
    WHERE {units}
)
GROUP BY run, vantage, repetition, cdn, family, first_address;
