SELECT *
FROM ${database}.name_measures
WHERE ({domain:String} = '' OR domain = {domain:String})
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
    AND (NOT {with_downloads:Bool} OR downloads > 0)
ORDER BY domain, ip, vantage, day
LIMIT {limit:UInt32}
