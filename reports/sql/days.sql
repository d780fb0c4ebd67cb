-- The first and last day of a run's probes, so that queries skip partitions of other months.
SELECT min(day) AS first, max(day) AS last
FROM ${database}.probe_day_all
WHERE run = {run:String}
