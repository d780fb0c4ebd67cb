-- The inner sums have different names: with prefer_column_name_to_alias, which Superset needs, an alias never hides a
-- column of the same name.
SELECT
    day,
    of_cdn AS cdn,
    vantage,
    all_probes AS probes,
    all_iack AS iack,
    all_coalesced AS coalesced,
    all_sh_first AS sh_first,
    all_probes - all_iack - all_coalesced - all_sh_first AS other_outcomes,
    if(all_iack + all_coalesced + all_sh_first = 0, NULL, all_iack / (all_iack + all_coalesced + all_sh_first)) AS iack_share,
    most_names AS names,
    all_delays AS iack_delays,
    -- A sketch without values returns 0, which would look like a time.
    if(all_delays = 0, NULL, quantiles[2]) AS ack_to_sh_p25_us,
    if(all_delays = 0, NULL, quantiles[3]) AS ack_to_sh_p50_us,
    if(all_delays = 0, NULL, quantiles[4]) AS ack_to_sh_p75_us
FROM
(
    SELECT
        day,
        assumeNotNull(probe_day.cdn) AS of_cdn,
        vantage,
        sum(probe_day.probes) AS all_probes,
        sum(probe_day.iack) AS all_iack,
        sum(probe_day.coalesced) AS all_coalesced,
        sum(probe_day.sh_first) AS all_sh_first,
        max(probe_day.names) AS most_names,
        sum(probe_day.iack_delays) AS all_delays,
        quantilesDDMerge(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(iack_to_sh_us) AS quantiles
    FROM ${database}.probe_day_all AS probe_day
    WHERE probe_day.cdn IS NOT NULL AND family = 4 AND first_address
    GROUP BY day, probe_day.cdn, vantage
)
ORDER BY day, cdn = 'Others', cdn, vantage
