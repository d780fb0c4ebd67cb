//! Entries of the packet log.

use super::*;

#[test]
fn the_log_says_what_became_of_each_packet() {
    let text = |feed: &mut Feed| {
        let log = feed.logged();
        let words = log
            .into_iter()
            .map(|(kind, opened, text)| format!("{kind} {opened} {text}"));
        words.collect::<Vec<_>>().join("; ")
    };
    let with_token = Sender {
        token: b"token",
        ..Sender::SERVER
    };
    let to_other = Sender {
        to: Some(&[9; 8]),
        ..Sender::SERVER
    };
    let mut feed = Feed::begun("");
    feed.log_packets();
    let cases: [(bool, Vec<u8>, &str); 12] = [
        (
            true,
            datagram(true, ODCID, &[], &[HELLO]),
            "initial true seen before",
        ),
        (
            false,
            with_token.datagram(&[ANSWER]),
            "initial false token, or another connection ID than before",
        ),
        (
            false,
            to_other.datagram(&[ANSWER]),
            "initial false another connection ID",
        ),
        (
            false,
            damaged(&[ANSWER]),
            "initial false packet does not authenticate",
        ),
        (
            false,
            datagram(false, ODCID, &[], &[initial(0, &[F::Ping, F::Unknown])]),
            "initial true malformed frame type",
        ),
        (
            false,
            datagram(false, ODCID, &[], &[initial(1, &[F::Ping])]),
            "initial true ping; padding 2",
        ),
        (
            false,
            datagram(false, ODCID, &[], &[handshake(0, &[F::Ping])]),
            "handshake false ",
        ),
        (
            false,
            datagram(false, ODCID, &[], &[one_rtt(0, &[F::Ping])]),
            "1rtt false ",
        ),
        (false, retry(), "retry false "),
        (
            false,
            version_negotiation(CLIENT, ODCID, &[Version::V2]),
            "version_negotiation false ",
        ),
        (true, retry(), "retry false "),
        (false, vec![0xff; 30], "unparsed false input ends too early"),
    ];
    for (from_client, bytes, expected) in cases {
        feed.bytes(10, from_client, &bytes).unwrap();
        assert_eq!(text(&mut feed), expected);
    }
    let sealed = datagram(
        false,
        ODCID,
        &[],
        &[initial(2, &[F::Ping]), initial(3, &[F::Ping])],
    );
    let first = datagram(false, ODCID, &[], &[initial(2, &[F::Ping])]).len();
    feed.cut(20, false, &sealed, first + 25).unwrap();
    assert_eq!(
        text(&mut feed),
        "initial true ping; padding 2; initial false cut by the capture"
    );
    feed.cut(20, false, &sealed, first + 5).unwrap();
    let log = &feed.log.as_ref().unwrap().packets;
    assert_eq!((log[1].kind, log[1].size), ("unparsed", 5));
    assert_eq!(text(&mut feed).matches("; unparsed false").count(), 1);
    // The unused bytes in a cut header are logged with it.
    feed.cut(20, false, &sealed, 30).unwrap();
    let log = &feed.log.as_ref().unwrap().packets;
    assert_eq!(
        (log[0].header.first_byte, log[0].scid),
        (Some(sealed[0]), Some(SERVER.into()))
    );
}
