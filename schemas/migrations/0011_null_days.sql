-- A probe that was not sent has no day: then nobody knows whose the address was, and the functions say null.
CREATE OR REPLACE FUNCTION address_asn ${on_cluster} AS (ip, day) -> dictGetOrNull(
    '${database}.origin_of', 'asn',
    dictGet('${database}.prefix_history_of', 'history', toIPv6OrDefault(ifNull(toString(ip), ''))),
    ifNull(toDate(day), toDate(0)));

CREATE OR REPLACE FUNCTION address_cdn ${on_cluster} AS (ip, day) -> dictGetOrNull(
    '${database}.origin_of', 'cdn',
    dictGet('${database}.prefix_history_of', 'history', toIPv6OrDefault(ifNull(toString(ip), ''))),
    ifNull(toDate(day), toDate(0)));

CREATE OR REPLACE FUNCTION as_organisation ${on_cluster} AS (asn, day) -> dictGetOrNull(
    '${database}.as_of', 'organisation', toUInt64(ifNull(asn, 0)), ifNull(toDate(day), toDate(0)));

CREATE OR REPLACE FUNCTION address_info ${on_cluster} AS (ip, day) -> CAST(
    (
        address_asn(ip, day),
        dictGetOrNull('${database}.as_of', 'as_name', toUInt64(ifNull(address_asn(ip, day), 0)),
            ifNull(toDate(day), toDate(0))),
        address_organisation(ip, day),
        dictGetOrNull('${database}.as_of', 'country', toUInt64(ifNull(address_asn(ip, day), 0)),
            ifNull(toDate(day), toDate(0))),
        address_cdn(ip, day)
    ),
    'Tuple(asn Nullable(UInt32), as_name Nullable(String), organisation Nullable(String), '
    || 'country Nullable(String), cdn Nullable(String))');
