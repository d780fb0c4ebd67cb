SELECT
    outcome,
    count() AS names,
    names / sum(names) OVER () AS share,
    round(avg(requests), 1) AS mean_requests,
    max(requests) AS most_requests,
    sum(bytes_received) AS bytes_received,
    countIf(robots = 'rules') AS robots_rules,
    countIf(robots = 'none') AS robots_none,
    countIf(robots = 'unreachable') AS robots_unreachable,
    countIf(robots = 'elsewhere') AS robots_elsewhere
FROM ${database}.crawl_page
WHERE ${of_run_with crawl_page}
GROUP BY outcome
ORDER BY names DESC, outcome
