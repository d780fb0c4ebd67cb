WITH
    (
        SELECT max(day)
        FROM ${database}.probe_day_all AS newest
        WHERE newest.counted > 0
            AND newest.cdn IS NOT NULL
            AND ({all_addresses:Bool} OR (newest.first_address AND newest.family = 4))
            AND ({vantage:String} = '' OR newest.vantage = {vantage:String})
            AND ({cdn:String} = '' OR newest.cdn = {cdn:String})
            AND day BETWEEN {since:Date} AND {until:Date}
    ) AS last_day
SELECT
    assumeNotNull(each.cdn) AS cdn,
    last_day AS newest_day,
    sumIf(each.counted, day = last_day) AS counted,
    if(counted = 0, NULL, sumIf(each.instant, day = last_day) / counted) AS iack_share,
    sumIf(each.counted, day = last_day - 1) AS counted_day_before,
    if(counted_day_before = 0, NULL, sumIf(each.instant, day = last_day - 1) / counted_day_before) AS share_day_before,
    iack_share - share_day_before AS change_day,
    sumIf(each.counted, day = last_day - 7) AS counted_week_before,
    if(counted_week_before = 0, NULL, sumIf(each.instant, day = last_day - 7) / counted_week_before) AS share_week_before,
    iack_share - share_week_before AS change_week
FROM
(
    ${share_rows}
) AS each
WHERE day IN (last_day, last_day - 1, last_day - 7)
GROUP BY cdn
ORDER BY cdn = 'Others', cdn
