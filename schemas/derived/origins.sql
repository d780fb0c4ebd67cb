-- The histories of origins for address_info(), from all rows of as_prefix.
--
-- If a day has several runs, the run with the last id counts, and its table is valid until the next one. If a table lacks a
-- prefix, the prefix gets the origin of the longest covering prefix, because one dictionary has the prefixes of all
-- tables and finds the longest match for every day.
TRUNCATE TABLE ${database}.prefix_history ${on_cluster};

INSERT INTO ${database}.prefix_history (prefix, history, first_days, last_days, asns, cdns)
WITH
    tables AS
    (
        SELECT argMax(run, (table_at, run)) AS run, toDate(table_at) AS day
        FROM (SELECT DISTINCT run, table_at FROM ${database}.as_prefix)
        GROUP BY day
    ),
    (SELECT arraySort(groupArray(day)) FROM tables) AS days,
    announced AS
    (
        SELECT
            prefix,
            toIPv6(splitByChar('/', prefix)[1]) AS network,
            if(position(prefix, ':') = 0, 96, 0) AS least_bits,
            toUInt8(splitByChar('/', prefix)[2]) + least_bits AS bits,
            -- (index of the table among the days, origin AS, its CDN)
            arraySort(groupArray((toUInt32(indexOf(days, toDate(table_at))), asn, toString(cdn)))) AS entries
        FROM ${database}.as_prefix
        WHERE (run, toDate(table_at)) IN (SELECT run, day FROM tables)
        GROUP BY prefix
    ),
    filled AS
    (
        SELECT prefix, arraySort(groupArray((number, origin.1, origin.2))) AS entries
        FROM
        (
            SELECT prefix, one.1 AS number, argMax((one.2, one.3), above) AS origin
            FROM
            (
                SELECT part.prefix AS prefix, holder.bits AS above, arrayJoin(holder.entries) AS one
                FROM
                (
                    SELECT
                        prefix,
                        arrayJoin(arrayMap(
                            length_ -> (IPv6CIDRToRange(network, toUInt8(length_)).1, toUInt8(length_)),
                            range(least_bits, toUInt32(bits) + 1)
                        )) AS covering
                    FROM announced
                    WHERE length(entries) < length(days)
                ) AS part
                INNER JOIN announced AS holder
                    ON holder.network = part.covering.1 AND holder.bits = part.covering.2
            )
            GROUP BY prefix, number
        )
        GROUP BY prefix
    )
SELECT
    prefix,
    cityHash64(first_days, last_days, asns, cdns) AS history,
    arrayMap(same -> days[same[1].1], stretches) AS first_days,
    arrayMap(
        same -> if(same[-1].1 = length(days), toDate('2149-06-06'), days[same[-1].1 + 1] - 1), stretches
    ) AS last_days,
    arrayMap(same -> same[1].2, stretches) AS asns,
    arrayMap(same -> same[1].3, stretches) AS cdns
FROM
(
    SELECT
        prefix,
        arraySplit(
            (now, before) -> now.1 != before.1 + 1 OR now.2 != before.2 OR now.3 != before.3,
            entries,
            arrayPopBack(arrayPushFront(entries, (toUInt32(0), toUInt32(0), '')))
        ) AS stretches
    FROM
    (
        SELECT prefix, entries FROM announced WHERE length(entries) = length(days)
        UNION ALL
        SELECT prefix, entries FROM filled
    )
);

TRUNCATE TABLE ${database}.origin_history ${on_cluster};

INSERT INTO ${database}.origin_history (history, first_day, last_day, asn, cdn)
SELECT history, first_day, last_day, asn, cdn
FROM (SELECT * FROM ${database}.prefix_history LIMIT 1 BY history)
ARRAY JOIN first_days AS first_day, last_days AS last_day, asns AS asn, cdns AS cdn;
