SELECT
    on_day AS day,
    cdn,
    at_vantage AS vantage,
    datagrams AS hello_datagrams,
    count() AS handshakes,
    countIf(NOT covers) AS partial,
    countIf(by_any = 'iack') AS iack_any_ack,
    countIf(by_whole = 'iack') AS iack,
    countIf(by_any = 'iack' AND by_whole != 'iack') AS false_iack,
    iack_any_ack / handshakes AS iack_any_ack_share,
    iack / handshakes AS iack_share
FROM
(
    SELECT
        if({by_day:Bool}, day, NULL) AS on_day,
        assumeNotNull(cdn) AS cdn,
        if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
        assumeNotNull(hello_datagrams) AS datagrams,
        assumeNotNull(ack_covers_hello) AS covers,
        assumeNotNull(first_answer_any_ack) AS by_any,
        assumeNotNull(first_answer) AS by_whole
    FROM ${database}.quic_handshake
    WHERE quic_handshake.cdn IS NOT NULL
        AND ${of_run_with quic_handshake}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
        AND ({cdn:String} = '' OR quic_handshake.cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
        AND ack_covers_hello IS NOT NULL AND sh_us IS NOT NULL AND first_answer IS NOT NULL
)
GROUP BY on_day, cdn, at_vantage, datagrams
ORDER BY day, cdn = 'Others', cdn, vantage, hello_datagrams
