-- Quantiles interpolate linearly between neighbours.
SELECT
    vantage,
    hour,
    cdn,
    purpose,
    first_answer,
    count() AS probes,
    uniqExact(domain) AS domains,
    quantileExactInclusiveOrNull(0.25)(ack_us) AS ack_us_p25,
    quantileExactInclusiveOrNull(0.5)(ack_us) AS ack_us_p50,
    quantileExactInclusiveOrNull(0.75)(ack_us) AS ack_us_p75,
    quantileExactInclusiveOrNull(0.25)(sh_us) AS sh_us_p25,
    quantileExactInclusiveOrNull(0.5)(sh_us) AS sh_us_p50,
    quantileExactInclusiveOrNull(0.75)(sh_us) AS sh_us_p75,
    quantileExactInclusiveOrNull(0.25)(ack_to_sh_us) AS ack_to_sh_us_p25,
    quantileExactInclusiveOrNull(0.5)(ack_to_sh_us) AS ack_to_sh_us_p50,
    quantileExactInclusiveOrNull(0.75)(ack_to_sh_us) AS ack_to_sh_us_p75
FROM ${database}.watch_answer
GROUP BY vantage, hour, cdn, purpose, first_answer
ORDER BY vantage, hour, cdn, purpose, first_answer
