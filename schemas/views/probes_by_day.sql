SELECT
    day,
    assumeNotNull(cdn) AS cdn,
    vantage,
    sum(probe_day.probes) AS probes,
    sum(probe_day.iack) AS iack,
    sum(probe_day.coalesced) AS coalesced,
    sum(probe_day.sh_first) AS sh_first,
    probes - iack - coalesced - sh_first AS other_outcomes,
    if(iack + coalesced + sh_first = 0, NULL, iack / (iack + coalesced + sh_first)) AS iack_share,
    max(probe_day.names) AS names,
    sum(probe_day.iack_delays) AS iack_delays,
    -- A sketch without values returns 0, which would be read as a time.
    if(iack_delays = 0, NULL, quantilesDDMerge(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(iack_to_sh_us)[2]) AS ack_to_sh_p25_us,
    if(iack_delays = 0, NULL, quantilesDDMerge(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(iack_to_sh_us)[3]) AS ack_to_sh_p50_us,
    if(iack_delays = 0, NULL, quantilesDDMerge(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(iack_to_sh_us)[4]) AS ack_to_sh_p75_us
FROM ${database}.probe_day_all AS probe_day
WHERE probe_day.cdn IS NOT NULL AND family = 4 AND first_address
GROUP BY day, probe_day.cdn, vantage
ORDER BY day, cdn = 'Others', cdn, vantage
