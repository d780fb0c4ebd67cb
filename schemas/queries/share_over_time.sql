SELECT
    ${period} AS period,
    assumeNotNull(each.cdn) AS cdn,
    if({by_vantage:Bool}, each.vantage, NULL) AS vantage,
    uniqExact(run) AS runs,
    sum(each.probes) AS probes,
    sum(each.counted) AS counted,
    sum(each.instant) AS instant,
    if(counted = 0, NULL, instant / counted) AS iack_share,
    sum(each.answered) AS answered,
    sum(each.iack) AS iack,
    if(answered = 0, NULL, iack / answered) AS strict_share
FROM
(
    ${share_rows}
) AS each
GROUP BY period, cdn, vantage
ORDER BY period, cdn = 'Others', cdn, vantage
