SELECT
    run,
    cdn,
    max(unit_names) AS domains,
    max(share) AS iack_share_max,
    max(share) - min(share) AS variation,
    sum(n_probes) AS probes,
    sum(n_iack) AS iack,
    sum(n_coalesced) AS coalesced,
    sum(n_sh_first) AS sh_first,
    sum(n_closed) AS closed,
    sum(n_ack_only) AS ack_only,
    sum(n_retry) AS retry,
    sum(n_version_negotiation) AS version_negotiation,
    sum(n_refused) AS refused,
    sum(n_malformed) AS malformed,
    sum(n_timeout) AS timeout,
    sum(n_send_failed) AS send_failed,
    sum(n_blocked) AS blocked
FROM
(
    SELECT
        run,
        vantage,
        repetition,
        assumeNotNull(cdn) AS cdn,
        sum(probes) AS n_probes,
        sum(iack) AS n_iack,
        sum(coalesced) AS n_coalesced,
        sum(sh_first) AS n_sh_first,
        sum(closed) AS n_closed,
        sum(ack_only) AS n_ack_only,
        sum(retry) AS n_retry,
        sum(version_negotiation) AS n_version_negotiation,
        sum(refused) AS n_refused,
        sum(malformed) AS n_malformed,
        sum(timeout) AS n_timeout,
        sum(send_failed) AS n_send_failed,
        sum(blocked) AS n_blocked,
        n_iack + n_coalesced + n_sh_first AS answered,
        if(answered = 0, NULL, n_iack / answered) AS share
    FROM ${database}.probe_day_all AS probe_day
    WHERE probe_day.cdn IS NOT NULL AND family = 4 AND first_address
    GROUP BY run, vantage, repetition, probe_day.cdn
) AS unit
INNER JOIN
(
    SELECT run, vantage, repetition, assumeNotNull(cdn) AS cdn, names_answered AS unit_names
    FROM ${database}.probe_unit_all AS probe_unit
    WHERE probe_unit.cdn IS NOT NULL AND family = 4 AND first_address
) AS named USING (run, vantage, repetition, cdn)
GROUP BY run, cdn
ORDER BY run, cdn = 'Others', cdn
