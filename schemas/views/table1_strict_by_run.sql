SELECT
    run,
    cdn,
    max(names) AS domains,
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
        assumeNotNull(cdn) AS cdn,
        uniqExactIf(domain, outcome IN ('iack', 'coalesced', 'sh_first')) AS names,
        count() AS n_probes,
        countIf(outcome = 'iack') AS n_iack,
        countIf(outcome = 'coalesced') AS n_coalesced,
        countIf(outcome = 'sh_first') AS n_sh_first,
        countIf(outcome = 'closed') AS n_closed,
        countIf(outcome = 'ack_only') AS n_ack_only,
        countIf(outcome = 'retry') AS n_retry,
        countIf(outcome = 'version_negotiation') AS n_version_negotiation,
        countIf(outcome = 'refused') AS n_refused,
        countIf(outcome = 'malformed') AS n_malformed,
        countIf(outcome = 'timeout') AS n_timeout,
        countIf(outcome = 'send_failed') AS n_send_failed,
        countIf(outcome = 'blocked') AS n_blocked,
        n_iack + n_coalesced + n_sh_first AS answered,
        if(answered = 0, NULL, n_iack / answered) AS share
    FROM ${database}.quic_probe
    WHERE quic_probe.cdn IS NOT NULL AND address_rank = 0 AND isIPv4String(ip)
    GROUP BY run, vantage, repetition, quic_probe.cdn
)
GROUP BY run, cdn
ORDER BY run, cdn = 'Others', cdn
