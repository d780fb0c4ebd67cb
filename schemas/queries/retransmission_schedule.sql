-- A server may send two datagrams when its probe timeout expires (RFC 9002 6.2.4): datagrams within 5 ms count as one expiry.
SELECT
    cdn,
    at_vantage AS vantage,
    of_stack AS stack,
    count() AS listened,
    countIf(retransmissions > 0) AS retransmitting,
    retransmitting / listened AS retransmitting_share,
    quantileExactOrNullIf(0.5)(expiries[1] - sh_us, length(expiries) > 0) AS first_p50_us,
    quantileExactOrNullIf(0.1)(expiries[1] - sh_us, length(expiries) > 0) AS first_p10_us,
    quantileExactOrNullIf(0.9)(expiries[1] - sh_us, length(expiries) > 0) AS first_p90_us,
    quantileExactOrNullIf(0.5)((expiries[2] - expiries[1]) / (expiries[1] - sh_us), length(expiries) > 1) AS growth_p50,
    quantileExact(0.5)(length(expiries)) AS expiries_p50,
    max(length(expiries)) AS expiries_most,
    quantileExactOrNull(0.5)(factor) AS amplification_p50,
    avgOrNull(factor > 3) AS amplified_share
FROM
(
    SELECT
        cdn,
        at_vantage,
        if({by_stack:Bool}, stack, NULL) AS of_stack,
        retransmissions,
        sh_us,
        factor,
        arrayFilter((at, gap) -> gap > 5000, times, arrayMap((at, before) -> at - before, times, arraySlice(arrayPushFront(times, sh_us), 1, length(times)))) AS expiries
    FROM
    (
        SELECT
            run,
            assumeNotNull(quic_probe.cdn) AS cdn,
            vantage,
            if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
            domain,
            ip,
            assumeNotNull(retransmissions) AS retransmissions,
            assumeNotNull(sh_us) AS sh_us,
            arrayMap(at -> CAST(at, 'Int64'), retransmission_us) AS times,
            if(retried, NULL, bytes_received / bytes_sent) AS factor
        FROM ${database}.quic_probe
        WHERE ${asked}
            AND listened_s IS NOT NULL AND quic_probe.sh_us IS NOT NULL
    ) AS listened_to
    LEFT JOIN
    (
        SELECT run, vantage, domain, ip, CAST(any(quic_handshake.stack), 'Nullable(String)') AS stack
        FROM ${database}.quic_handshake
        WHERE quic_handshake.stack IS NOT NULL
        GROUP BY run, vantage, domain, ip
    ) AS completed
        ON completed.run = listened_to.run AND completed.vantage = listened_to.vantage
        AND completed.domain = listened_to.domain AND completed.ip = listened_to.ip
)
GROUP BY cdn, at_vantage, of_stack
ORDER BY cdn = 'Others', cdn, vantage, stack
