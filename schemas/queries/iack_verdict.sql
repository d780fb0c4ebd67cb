SELECT *
FROM ${database}.iack_verdict
WHERE ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND ({domain:String} = '' OR domain = {domain:String})
    AND ({against:Bool} = false OR follows = false)
ORDER BY run, vantage, domain, ip
LIMIT {limit:UInt32}
