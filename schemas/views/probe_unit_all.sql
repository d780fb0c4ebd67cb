SELECT
    run, vantage, repetition, CAST(cdn, 'Nullable(String)') AS cdn, family, first_address, first_at, names,
    names_answered, names_counted, names_instant
FROM ${database}.probe_unit
WHERE (run, vantage, repetition) NOT IN (SELECT run, vantage, repetition FROM ${database}.unit_not_rolled_up)
UNION ALL
${derived_probe_unit}
