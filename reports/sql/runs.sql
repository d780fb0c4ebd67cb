-- All runs in the store, newest first, and the share of instant ACKs among all probes that got a ServerHello.
SELECT
    run,
    min(day) AS first_day,
    max(day) AS last_day,
    uniqExact(vantage) AS vantages,
    uniqExact(repetition) AS repetitions,
    sum(d.probes) AS probes,
    sum(d.iack) AS iack,
    sum(d.iack + d.coalesced + d.sh_first) AS answered,
    if(answered = 0, NULL, iack / answered) AS iack_share
FROM ${database}.probe_day_all AS d
GROUP BY run
ORDER BY first_day DESC, run DESC
LIMIT 50
