SELECT
    cdn,
    at_vantage AS vantage,
    sum(sized_iack) AS iack,
    sum(padded_iack) AS padded,
    if(iack = 0, NULL, padded / iack) AS padded_share,
    if(iack = 0, NULL, sum(iack_ack_bytes) / iack) AS ack_bytes,
    if(iack = 0, NULL, sum(iack_ack_bytes) / sum(iack_budget_bytes)) AS budget_share
FROM
(
    SELECT
        assumeNotNull(probe_day.cdn) AS cdn,
        if({by_vantage:Bool}, probe_day.vantage, NULL) AS at_vantage,
        sized_iack,
        padded_iack,
        iack_ack_bytes,
        iack_budget_bytes
    FROM ${database}.probe_day_all AS probe_day
    WHERE probe_day.cdn IS NOT NULL
        AND ${of_run}
        AND ({vantage:String} = '' OR probe_day.vantage = {vantage:String})
        AND ({cdn:String} = '' OR probe_day.cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
        AND ({all_addresses:Bool} OR (first_address AND family = 4))
)
GROUP BY cdn, at_vantage
HAVING iack > 0
ORDER BY cdn = 'Others', cdn, vantage
