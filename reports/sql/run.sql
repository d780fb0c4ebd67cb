-- The run's manifest and settings.
SELECT run, name, state, started_at, tool_version, manifest, settings
FROM ${database}.run
WHERE run = {run:String}
