SELECT
    period,
    vantage,
    probes,
    sketch[1] AS p10_us,
    sketch[2] AS p25_us,
    sketch[3] AS p50_us,
    sketch[4] AS p75_us,
    sketch[5] AS p90_us
FROM
(
    SELECT
        ${period} AS period,
        if({by_vantage:Bool}, toString(probe_day.vantage), NULL) AS vantage,
        sum(probe_day.iack_delays) AS probes,
        quantilesDDMerge(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(iack_to_sh_us) AS merged,
        arraySlice(merged, 1, 5) AS sketch
    FROM ${database}.probe_day_all AS probe_day
    -- A sketch without values returns 0, which would look like a time.
    WHERE probe_day.iack_delays > 0
        AND probe_day.cdn IS NOT NULL
        AND ({vantage:String} = '' OR probe_day.vantage = {vantage:String})
        AND ({cdn:String} = '' OR probe_day.cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
        AND ({all_addresses:Bool} OR (first_address AND family = 4))
    GROUP BY period, vantage
)
ORDER BY period, vantage
