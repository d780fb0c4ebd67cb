SELECT
    ${watched_by_hour}
FROM ${database}.watch_answer
-- Also filter by planned time, the table's sort key; the hour uses the reference clock.
WHERE toDate32(planned_at) BETWEEN toDate32({since:Date}) - 1 AND toDate32({until:Date}) + 1
    AND toDate32(hour) BETWEEN toDate32({since:Date}) AND toDate32({until:Date})
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND ({purpose:String} = '' OR purpose = {purpose:String})
    AND ({domain:String} = '' OR domain = {domain:String})
GROUP BY vantage, hour, cdn, purpose, first_answer
ORDER BY vantage, hour, cdn, purpose, first_answer
