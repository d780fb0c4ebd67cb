-- From which day to which a run has probes: partitions of other months need not be read.
SELECT min(day) AS first, max(day) AS last
FROM ${database}.probe_day_all
WHERE run = {run:String}
