SELECT *
FROM ${database}.https_promise
WHERE ${of_run}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND if({promise:String} = '', promise IN ('broken', 'not_promised') OR ipv4_hints_are IN ('overlap', 'other')
        OR ipv6_hints_are IN ('overlap', 'other') OR alt_svc_promise IN ('broken', 'not_promised')
        OR ech_promise IN ('broken', 'not_promised'), promise = {promise:String})
ORDER BY run, vantage, repetition, domain
LIMIT {limit:UInt32}
