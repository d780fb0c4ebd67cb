WITH
answered AS
(
    SELECT
        vantage,
        tcp_option.cdn AS cdn,
        domain,
        ip,
        window_scaling AS ws,
        sack,
        timestamps,
        ecn,
        mss
    FROM ${database}.tcp_option
    WHERE outcome = 'answered' AND ${of_run_with tcp_option}
)
SELECT
    coalesce(CAST(answered.cdn AS Nullable(String)), 'Others') AS cdn,
    count() AS answered,
    uniqExactIf(domain, domain != '') AS names,
    uniqExact(ip) AS addresses,
    countIf(ecn) / nullIf(countIf(ecn IS NOT NULL), 0) AS ecn_share,
    countIf(sack) / nullIf(countIf(sack IS NOT NULL), 0) AS sack_share,
    countIf(ws) / nullIf(countIf(ws IS NOT NULL), 0) AS window_scaling_share,
    countIf(timestamps) / nullIf(countIf(timestamps IS NOT NULL), 0) AS timestamps_share,
    countIf(ecn AND sack AND ws) / nullIf(countIf(ecn IS NOT NULL AND sack IS NOT NULL AND ws IS NOT NULL), 0)
        AS all_three_share,
    countIf(NOT ecn AND NOT sack AND NOT ws)
        / nullIf(countIf(ecn IS NOT NULL AND sack IS NOT NULL AND ws IS NOT NULL), 0) AS none_share,
    uniqExactIf(ip, ecn AND sack AND ws)
        / nullIf(uniqExactIf(ip, ecn IS NOT NULL AND sack IS NOT NULL AND ws IS NOT NULL), 0) AS all_three_share_of_addresses,
    quantileExact(0.5)(mss) AS mss_p50
FROM answered
GROUP BY cdn
ORDER BY answered DESC, cdn
