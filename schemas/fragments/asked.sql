-- Probes of CDNs, filtered by the common parameters of most named queries (queries/parameters.yaml).
quic_probe.cdn IS NOT NULL
        AND ${of_run}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
        AND ({cdn:String} = '' OR quic_probe.cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
        AND ({all_addresses:Bool} OR (address_rank = 0 AND family = 4))
