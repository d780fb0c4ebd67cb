-- The newest run with downloads.
SELECT run
FROM ${database}.download
GROUP BY run
ORDER BY max(started_at) DESC NULLS LAST, run DESC
LIMIT 1
