-- For the bootstrap over names: how many names of a CDN fared alike at every vantage point and repetition.
-- A pattern holds one tuple per probe of a name: (vantage, repetition, counted, instant, answered, iack), where
-- counted and instant are the paper's way (iack_by_cdn), answered and iack are by outcome (table1_strict).
SELECT cdn, pattern, count() AS names
FROM
(
    SELECT cdn, domain, arraySort(groupArray((vantage, repetition, counted, instant, answered, iack))) AS pattern
    FROM
    (
        SELECT
            assumeNotNull(cdn) AS cdn,
            domain,
            vantage,
            repetition,
            toUInt8(max(is_counted)) AS counted,
            toUInt8(max(is_counted AND outcome != 'coalesced')) AS instant,
            countIf(outcome IN ('iack', 'coalesced', 'sh_first')) AS answered,
            countIf(outcome = 'iack') AS iack
        FROM
        (
            SELECT
                cdn, domain, vantage, repetition, outcome,
                ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false) AS is_counted
            FROM ${database}.quic_probe
            WHERE run = {run:String} AND cdn IS NOT NULL AND address_rank = 0 AND family = 4
        )
        GROUP BY cdn, domain, vantage, repetition
    )
    GROUP BY cdn, domain
)
GROUP BY cdn, pattern
ORDER BY cdn, pattern
