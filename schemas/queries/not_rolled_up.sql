SELECT run, vantage, repetition
FROM ${database}.unit_not_rolled_up
ORDER BY run, vantage, repetition
