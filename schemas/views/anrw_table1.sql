SELECT
    run,
    vantage,
    toString(protocol) AS target_set,
    arrayJoin([of_cdn, 'Total']) AS cdn,
    uniqExact(domain) AS domains
FROM
(
    SELECT
        run,
        vantage,
        domain,
        protocol,
        coalesce(CAST(download.cdn AS Nullable(String)), 'Others') AS of_cdn
    FROM ${database}.download
    WHERE repetition = 1 AND `set` != 'warmup' AND outcome IN ('done', 'stopped_limit')
        AND (download.target_set IS NULL OR download.target_set = 'both' OR download.target_set = toString(protocol))
)
GROUP BY run, vantage, target_set, cdn
