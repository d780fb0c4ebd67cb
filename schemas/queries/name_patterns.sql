-- For the bootstrap over names: the number of names of a CDN with equal results at every vantage point and repetition.
-- A pattern has one tuple per probe of a name: (vantage, repetition, counted, instant, answered, iack), where counted
-- and instant follow the paper (iack_by_cdn), and answered and iack follow the outcome (table1_strict).
-- Tuples are packed into numbers until names are counted, which is ten times less work than sorting tuples with texts.
WITH (SELECT arraySort(groupUniqArray(toString(vantage))) FROM ${database}.quic_probe WHERE run = {run:String}) AS vantages
SELECT
    cdn,
    arrayMap(
        code -> (
            vantages[intDiv(code, 1048576)], intDiv(code, 16) % 65536,
            bitTest(code, 3), bitTest(code, 2), bitTest(code, 1), bitTest(code, 0)
        ),
        codes) AS pattern,
    names
FROM
(
    SELECT cdn, codes, count() AS names
    FROM
    (
        SELECT
            assumeNotNull(cdn) AS cdn,
            domain,
            arraySort(groupArray(
                toUInt64(indexOf(vantages, vantage)) * 1048576 + repetition * 16
                + is_counted * 8 + (is_counted AND outcome != 'coalesced') * 4
                + (outcome IN ('iack', 'coalesced', 'sh_first')) * 2 + (outcome = 'iack'))) AS codes
        FROM
        (
            SELECT
                cdn, domain, vantage, repetition, outcome,
                ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false) AS is_counted
            FROM ${database}.quic_probe
            WHERE run = {run:String} AND cdn IS NOT NULL AND address_rank = 0 AND family = 4
        )
        GROUP BY cdn, domain
    )
    GROUP BY cdn, codes
)
ORDER BY cdn, pattern
