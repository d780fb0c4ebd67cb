SELECT
    run,
    uniqExact(unit.vantage) AS vantages,
    uniqExact(unit.repetition) AS repetitions,
    toDate(min(unit.first_at)) AS first_day,
    max(unit.names) AS names,
    sum(unit.probes) AS probes,
    sum(unit.counted) AS counted,
    sum(unit.instant) AS instant,
    if(counted = 0, NULL, instant / counted) AS iack_share,
    sum(unit.delays) AS delays,
    -- A sketch without values returns 0, which would look like a time.
    if(delays = 0, NULL, quantilesDDMerge(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(unit.sketch)[3]) AS delay_p50_us
FROM
(
    SELECT
        run,
        vantage,
        repetition,
        min(probe_day.first_at) AS first_at,
        sum(probe_day.names) AS names,
        sum(probe_day.probes) AS probes,
        sum(probe_day.counted) AS counted,
        sum(probe_day.instant) AS instant,
        sum(probe_day.iack_delays) AS delays,
        quantilesDDMergeState(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(iack_to_sh_us) AS sketch
    FROM ${database}.probe_day_all AS probe_day
    WHERE family = 4 AND first_address AND ${of_run}
    GROUP BY run, vantage, repetition
) AS unit
GROUP BY run
ORDER BY run DESC
