SELECT
    ${watched_by_hour}
FROM ${database}.watch_answer
GROUP BY vantage, hour, cdn, purpose, first_answer
ORDER BY vantage, hour, cdn, purpose, first_answer
