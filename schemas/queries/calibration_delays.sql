-- The interval uses order statistics: the ranks `low_rank` and pairs + 1 - `low_rank` of the differences, from the binomial distribution.
WITH
    arrayCumSum(arrayMap(
        k -> exp(lgamma(pairs + 1) - lgamma(k + 1) - lgamma(pairs - k + 1) - pairs * log(2)),
        range(intDiv(pairs, 2) + 1))) AS cumulated,
    arrayCount(p -> p <= 0.025, cumulated) AS low_rank
SELECT
    source,
    cdn,
    quantity,
    pairs,
    probe_p50_us,
    handshake_p50_us,
    difference_p50_us,
    if(low_rank = 0, NULL, differences[low_rank]) AS difference_low_us,
    if(low_rank = 0, NULL, differences[pairs + 1 - low_rank]) AS difference_high_us,
    if(low_rank = 0, NULL, 1 - 2 * cumulated[low_rank]) AS confidence
FROM
(
    SELECT
        source,
        of_cdn AS cdn,
        quantity,
        count() AS pairs,
        quantileExactInclusive(0.5)(of_probe) AS probe_p50_us,
        quantileExactInclusive(0.5)(of_handshake) AS handshake_p50_us,
        quantileExactInclusive(0.5)(of_handshake - of_probe) AS difference_p50_us,
        arraySort(groupArray(of_handshake - of_probe)) AS differences
    FROM
    (
        SELECT
            source,
            arrayJoin(if(cdn IS NULL, [CAST(NULL, 'Nullable(String)')], [cdn, NULL])) AS of_cdn,
            arrayJoin([
                ('first_answer_us', probe_first_us, handshake_first_us),
                ('sh_us', probe_sh_us, handshake_sh_us),
                ('ack_to_sh_us', probe_sh_us - probe_ack_us, handshake_sh_us - handshake_ack_us)]) AS one,
            one.1 AS quantity,
            one.2 AS maybe_probe,
            one.3 AS maybe_handshake,
            assumeNotNull(maybe_probe) AS of_probe,
            assumeNotNull(maybe_handshake) AS of_handshake
        FROM
        (
            ${calibration_pairs}
        )
        WHERE state = 'compared'
    )
    WHERE maybe_probe IS NOT NULL AND maybe_handshake IS NOT NULL
    GROUP BY source, of_cdn, quantity
)
ORDER BY source, cdn IS NOT NULL, cdn = 'Others', cdn, quantity
