-- The histories of origins that address_info() looks up, made from all of as_prefix.
--
-- Of each day with a routing table the run loaded last by name counts, and a table holds until the next one. A prefix
-- that some tables lack belongs there to the longest prefix above it, because one dictionary holds the prefixes of
-- all tables and finds the longest of them, whatever the day.
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
            -- (place of the table among the days, origin AS, its CDN)
            arraySort(groupArray((toUInt32(indexOf(days, toDate(table_at))), asn, toString(cdn)))) AS seen
        FROM ${database}.as_prefix
        WHERE (run, toDate(table_at)) IN (SELECT run, day FROM tables)
        GROUP BY prefix
    ),
    filled AS
    (
        SELECT prefix, arraySort(groupArray((place, origin.1, origin.2))) AS seen
        FROM
        (
            SELECT prefix, one.1 AS place, argMax((one.2, one.3), above) AS origin
            FROM
            (
                SELECT part.prefix AS prefix, holder.bits AS above, arrayJoin(holder.seen) AS one
                FROM
                (
                    SELECT
                        prefix,
                        arrayJoin(arrayMap(
                            length_ -> (IPv6CIDRToRange(network, toUInt8(length_)).1, toUInt8(length_)),
                            range(least_bits, toUInt32(bits) + 1)
                        )) AS covering
                    FROM announced
                    WHERE length(seen) < length(days)
                ) AS part
                INNER JOIN announced AS holder
                    ON holder.network = part.covering.1 AND holder.bits = part.covering.2
            )
            GROUP BY prefix, place
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
            seen,
            arrayPopBack(arrayPushFront(seen, (toUInt32(0), toUInt32(0), '')))
        ) AS stretches
    FROM
    (
        SELECT prefix, seen FROM announced WHERE length(seen) = length(days)
        UNION ALL
        SELECT prefix, seen FROM filled
    )
);

TRUNCATE TABLE ${database}.origin_history ${on_cluster};

INSERT INTO ${database}.origin_history (history, first_day, last_day, asn, cdn)
SELECT history, first_day, last_day, asn, cdn
FROM (SELECT * FROM ${database}.prefix_history LIMIT 1 BY history)
ARRAY JOIN first_days AS first_day, last_days AS last_day, asns AS asn, cdns AS cdn;
