-- How many of a CDN's probes had a difference of at most difference_us between a delay and the ACK Delay that the
-- server reports. paper: from the ACK to the ServerHello (0 when coalesced); physical: from the Initial to the ACK.
-- Counts are exact at each difference_us. There are 40 values of difference_us per decade away from zero.
SELECT
    way,
    outcome,
    cdn,
    difference_us,
    sum(probes) OVER (PARTITION BY way, outcome, cdn ORDER BY difference_us) AS at_most,
    sum(probes) OVER (PARTITION BY way, outcome, cdn) AS of_probes
FROM
(
    SELECT
        way,
        outcome,
        cdn,
        ceil(40 * sign(difference) * log10(1 + abs(difference) / 100)) / 40 AS step,
        toInt64(floor(100 * sign(step) * (exp10(abs(step)) - 1) + 0.000001)) AS difference_us,
        count() AS probes
    FROM
    (
        SELECT
            assumeNotNull(cdn) AS cdn,
            toString(outcome) AS outcome,
            ack_us - ack_delay_us AS physical,
            if(outcome = 'coalesced', 0, ack_to_sh_us) - ack_delay_us AS paper
        FROM ${database}.quic_probe
        WHERE run = {run:String} AND day BETWEEN {first:Date} AND {last:Date}
            AND quic_probe.cdn IS NOT NULL AND address_rank = 0 AND family = 4
            AND attempts = 1 AND quic_probe.outcome IN ('iack', 'coalesced')
    )
    ARRAY JOIN ['paper', 'physical'] AS way, [paper, physical] AS difference
    WHERE difference IS NOT NULL
    GROUP BY way, outcome, cdn, step
)
ORDER BY way, outcome, cdn = 'Others', cdn, difference_us
