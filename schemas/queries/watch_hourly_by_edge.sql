SELECT
    edge_location,
    countIf(edge_by = 'name') AS edge_by_name,
    countIf(edge_by = 'address') AS edge_by_address,
    countIf(edge_by = 'prefix') AS edge_by_prefix,
    ${watched_by_hour}
FROM ${database}.watch_answer_edge
-- Also filter by planned time, the table's sort key; the hour uses the reference clock.
WHERE toDate32(planned_at) BETWEEN toDate32({since:Date}) - 1 AND toDate32({until:Date}) + 1
    AND toDate32(hour) BETWEEN toDate32({since:Date}) AND toDate32({until:Date})
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND ({purpose:String} = '' OR purpose = {purpose:String})
    AND ({domain:String} = '' OR domain = {domain:String})
    AND ({edge:String} = '' OR edge_location = {edge:String})
GROUP BY vantage, hour, cdn, purpose, first_answer, edge_location
ORDER BY vantage, cdn, edge_location, hour, purpose, first_answer
