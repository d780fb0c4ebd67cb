SELECT
    assumeNotNull(cdn) AS cdn,
    at_vantage AS vantage,
    family,
    assumeNotNull(initial_size) AS size,
    countIf(NOT unsent) AS probes,
    countIf(has_answer) AS answered,
    if(probes = 0, NULL, answered / probes) AS answered_share,
    countIf(outcome = 'iack') AS iack,
    avgOrNullIf(bytes_received > 3 * bytes_sent, has_answer AND NOT retried) AS amplified_share,
    countIf(icmp_type = 3 AND icmp_code = 4 AND family = 4 OR icmp_type = 2 AND family = 6) AS too_big,
    countIf(outcome = 'send_failed') AS send_failed
FROM
(
    SELECT
        cdn,
        if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
        family,
        initial_size,
        outcome,
        outcome IN ('blocked', 'send_failed') AS unsent,
        ${spoke_quic} AS has_answer,
        retried,
        bytes_received,
        bytes_sent,
        icmp_type,
        icmp_code
    FROM ${database}.quic_probe
    WHERE ${asked}
        AND initial_size IS NOT NULL
)
GROUP BY cdn, at_vantage, family, initial_size
ORDER BY cdn = 'Others', cdn, vantage, family, size
