-- The organisation of each AS by day, from all rows of as_org. If a day has several runs, the run with the
-- last id counts. Its file is valid until the next one.
TRUNCATE TABLE ${database}.as_history ${on_cluster};

INSERT INTO ${database}.as_history (asn, first_day, last_day, as_name, organisation, country)
WITH
    tables AS
    (
        SELECT argMax(run, (table_at, run)) AS run, toDate(table_at) AS day
        FROM (SELECT DISTINCT run, table_at FROM ${database}.as_org)
        GROUP BY day
    ),
    (SELECT arraySort(groupArray(day)) FROM tables) AS days
SELECT
    asn,
    days[same[1].1],
    if(same[-1].1 = length(days), toDate('2149-06-06'), days[same[-1].1 + 1] - 1),
    same[1].2,
    same[1].3,
    same[1].4
FROM
(
    SELECT
        asn,
        arraySort(
            one -> one.1,
            groupArray((toUInt32(indexOf(days, toDate(table_at))), as_name, organisation, toNullable(country)))
        ) AS entries,
        arrayJoin(arraySplit(
            (now, before) -> now.1 != before.1 + 1
                OR NOT isNotDistinctFrom((now.2, now.3, now.4), (before.2, before.3, before.4)),
            entries,
            arrayPopBack(arrayPushFront(entries, (toUInt32(0), NULL, NULL, NULL)))
        )) AS same
    FROM ${database}.as_org
    WHERE (run, toDate(table_at)) IN (SELECT run, day FROM tables)
    GROUP BY asn
);
