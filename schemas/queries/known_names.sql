SELECT
    named.1 AS kind,
    named.2 AS name,
    sum(each.probes) AS probes,
    min(day) AS first_day,
    max(day) AS last_day
FROM
(
    SELECT day, probe_day.probes AS probes, arrayJoin([('cdn', ifNull(probe_day.cdn, '')), ('vantage', toString(probe_day.vantage))]) AS named
    FROM ${database}.probe_day_all AS probe_day
) AS each
WHERE name != ''
GROUP BY kind, name
ORDER BY kind, name = 'Others', name
