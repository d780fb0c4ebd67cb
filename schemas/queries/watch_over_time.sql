SELECT
    formatDateTime(if({step:String} = 'hour', hour, toStartOfDay(hour)), '%F %H:%i') AS period,
    watch_answer.vantage AS vantage,
    if(first_answer = 'iack', 'instant ACK', 'one datagram') AS answer,
    count() AS probes,
    uniqExact(watch_answer.domain) AS names,
    quantileExactInclusiveOrNull(0.25)(ack_us) AS ack_us_p25,
    quantileExactInclusiveOrNull(0.5)(ack_us) AS ack_us_p50,
    quantileExactInclusiveOrNull(0.75)(ack_us) AS ack_us_p75,
    quantileExactInclusiveOrNull(0.25)(sh_us) AS sh_us_p25,
    quantileExactInclusiveOrNull(0.5)(sh_us) AS sh_us_p50,
    quantileExactInclusiveOrNull(0.75)(sh_us) AS sh_us_p75,
    concat(vantage, ', ', answer) AS line
FROM ${database}.watch_answer
WHERE toDate32(planned_at) BETWEEN toDate32({since:Date}) - 1 AND toDate32({until:Date}) + 1
    AND toDate32(hour) BETWEEN toDate32({since:Date}) AND toDate32({until:Date})
    AND first_answer IN ('iack', 'coalesced')
    AND ({vantage:String} = '' OR watch_answer.vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND ({domain:String} = '' OR watch_answer.domain = {domain:String})
GROUP BY period, vantage, answer
ORDER BY period, vantage, answer
