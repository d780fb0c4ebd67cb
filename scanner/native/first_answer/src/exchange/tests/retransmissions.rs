//! Retransmissions of the server: which datagrams count, and that they change no other result.

use super::*;

fn again(exchange: &Exchange) -> (u16, Vec<Stamp>) {
    let rare = exchange.rare.as_ref();
    rare.map_or((0, vec![]), |rare| {
        (rare.retransmissions, rare.retransmitted_at.clone())
    })
}

fn ping(w: &mut Writer<'_>) -> Result<(), Error> {
    write_ping(w)
}

#[test]
fn repeated_crypto_and_pings_behind_the_hello_count_once_per_datagram() {
    let bytes = hello_bytes();
    let middle: Fill<'_> = &|w| write_crypto(w, 5, &bytes[5..20]);
    let new: Fill<'_> = &|w| write_crypto(w, bytes.len() as u64, &[1; 20]);
    let first = initial(0, &both);
    for (name, datagram, count) in [
        ("the hello again", initial(1, &hello), 1),
        ("a part of it", initial(1, middle), 1),
        ("a PING", initial(1, &ping), 1),
        (
            "two packets",
            [initial(1, &hello), initial(2, &ping)].concat(),
            1,
        ),
        ("an ACK", initial(1, &ack), 0),
        ("new CRYPTO bytes", initial(1, new), 0),
        ("a Handshake packet", handshake(), 0),
        ("the same packet", first.clone(), 0),
    ] {
        let (outcome, exchange) = outcome_of(&[first.clone(), datagram]);
        assert_eq!(outcome, Outcome::Coalesced, "{name}");
        let expected = if count == 1 { vec![2_000_000] } else { vec![] };
        assert_eq!(again(&exchange), (count, expected), "{name}");
    }
    let (_, exchange) = outcome_of(&[[initial(0, &both), initial(1, &hello)].concat()]);
    assert_eq!(again(&exchange).0, 0, "in the datagram of the first one");
    let (_, exchange) = outcome_of(&[initial(0, &ack), initial(1, &ping)]);
    assert_eq!(again(&exchange).0, 0, "before any ServerHello");
}

#[test]
fn what_is_listened_to_changes_no_answer() {
    let mut exchange = exchange();
    feed(&mut exchange, &[initial(0, &ack)]);
    exchange.listen();
    let close: Fill<'_> = &|w| write_connection_close(w, 0x128, 6, b"too late");
    let late = [
        initial(1, &hello),
        handshake(),
        initial(2, close),
        initial(3, &hello),
        b"no packet of QUIC".to_vec(),
    ];
    feed(&mut exchange, &late);
    let detail = exchange.rare.as_ref().and_then(|rare| rare.detail.clone());
    assert_eq!((detail, exchange.discarded), (None, 1));
    assert_eq!(
        (exchange.outcome(), exchange.hello),
        (Outcome::AckOnly, None)
    );
    assert_eq!((exchange.handshake_at, exchange.datagrams), (None, 6));
    assert!(exchange.has_state(), "the close is not taken");
    assert_eq!(
        again(&exchange).0,
        0,
        "nothing came before that could be repeated"
    );
}

#[test]
fn a_flood_is_counted_and_its_times_are_bounded() {
    let mut exchange = exchange();
    feed(&mut exchange, &[initial(0, &both)]);
    exchange.listen();
    let flood: Vec<_> = (1..=200).map(|number| initial(number, &ping)).collect();
    feed(&mut exchange, &flood);
    let (count, stamps) = again(&exchange);
    assert_eq!((count, stamps.len()), (200, MOST_RETRANSMISSIONS));
}
