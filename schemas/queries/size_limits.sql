SELECT
    cdn,
    at_vantage AS vantage,
    ip,
    any(domain) AS domain,
    maxIf(size, answered) AS largest_answered,
    arrayMin(arrayFilter(each -> each > largest_answered, groupArrayIf(size, NOT answered))) AS smallest_unanswered,
    arraySort(groupUniqArray(size)) AS sizes,
    countIf(answered) AS answers,
    countIf(too_big) AS too_big
FROM
(
    SELECT
        assumeNotNull(cdn) AS cdn,
        if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
        ip,
        domain,
        assumeNotNull(initial_size) AS size,
        ${spoke_quic} AS answered,
        ifNull(icmp_type = 3 AND icmp_code = 4 AND family = 4 OR icmp_type = 2 AND family = 6, false) AS too_big
    FROM ${database}.quic_probe
    WHERE ${asked}
        AND initial_size IS NOT NULL
        AND outcome != 'blocked'
)
GROUP BY cdn, at_vantage, ip
HAVING answers > 0 AND max(size) > largest_answered
ORDER BY cdn = 'Others', cdn, vantage, ip
LIMIT {limit:UInt32}
