SELECT
    run,
    cdn,
    max(domains) AS names,
    max(share) AS iack_share_max,
    max(share) - min(share) AS variation,
    argMax(counted_there, ifNull(share, -1)) AS counted,
    argMax(instant_there, ifNull(share, -1)) AS instant
FROM
(
    SELECT run, cdn, domains, iack_share AS share, counted AS counted_there, instant AS instant_there
    FROM ${database}.iack_by_cdn
    WHERE ${of_run}
)
GROUP BY run, cdn
ORDER BY run DESC, cdn = 'Others', cdn
