-- Completed handshakes, filtered by the common parameters of the queries about CDNs by four methods.
${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR has([by_asn, by_cname, by_header, by_certificate], {cdn:String}))
    AND day BETWEEN {since:Date} AND {until:Date}
