-- The newest run with downloads: that began last, as of queries.
SELECT run
FROM ${database}.download
GROUP BY run
ORDER BY min(started_at) DESC NULLS LAST, run DESC
LIMIT 1
