SELECT
    run,
    cdn,
    max(domains) AS domains,
    max(iack_share) AS iack_share_max,
    max(iack_share) - min(iack_share) AS variation
FROM
(
    SELECT run, cdn, domains, iack_share FROM ${database}.iack_by_cdn
) AS per_repetition
GROUP BY run, cdn
ORDER BY run, cdn = 'Others', cdn
