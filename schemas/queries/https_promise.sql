SELECT
    https_promise.cdn AS cdn,
    if({by_vantage:Bool}, https_promise.vantage, NULL) AS vantage,
    count() AS observations,
    countIf(has_record) AS with_record,
    with_record / nullIf(countIf(has_record IS NOT NULL), 0) AS record_share,
    countIf(promise = 'kept') AS kept,
    countIf(promise = 'broken') AS broken,
    countIf(promise = 'not_promised') AS not_promised,
    countIf(promise = 'neither') AS neither,
    broken / nullIf(kept + broken, 0) AS broken_share,
    countIf(ipv4_hints_are IS NOT NULL) AS with_ipv4_hints,
    countIf(ipv4_hints_are = 'equal') AS ipv4_hints_equal,
    countIf(ipv4_hints_are IN ('overlap', 'other')) AS ipv4_hints_differ,
    countIf(ipv6_hints_are IS NOT NULL) AS with_ipv6_hints,
    countIf(ipv6_hints_are = 'equal') AS ipv6_hints_equal,
    countIf(ipv6_hints_are IN ('overlap', 'other')) AS ipv6_hints_differ,
    countIf(https_ech) AS with_ech,
    countIf(alt_svc_h3 IS NOT NULL) AS with_response,
    countIf(alt_svc_h3) AS with_alt_svc_h3,
    countIf(alt_svc_promise = 'kept') AS alt_svc_kept,
    countIf(alt_svc_promise = 'broken') AS alt_svc_broken,
    countIf(alt_svc_promise = 'not_promised') AS alt_svc_not_promised,
    countIf(alt_svc_promise = 'neither') AS alt_svc_neither,
    countIf(ech_offers > 0) AS with_ech_offer,
    countIf(ech_promise = 'kept') AS ech_kept,
    countIf(ech_promise = 'broken') AS ech_broken,
    countIf(ech_promise = 'not_promised') AS ech_not_promised,
    countIf(ech_promise = 'neither') AS ech_neither,
    countIf(ech_configs_are IN ('overlap', 'other')) AS ech_configs_differ
FROM ${database}.https_promise
WHERE ${of_run}
    AND ({vantage:String} = '' OR https_promise.vantage = {vantage:String})
    AND ({cdn:String} = '' OR https_promise.cdn = {cdn:String})
GROUP BY cdn, vantage
ORDER BY cdn IS NULL, cdn = 'Others', cdn, vantage
