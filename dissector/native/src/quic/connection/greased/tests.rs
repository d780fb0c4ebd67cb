use crate::quic::connection::testing::{
    ANSWER, F, Feed, P, Sender, client_hello_with_grease, encrypted_extensions, handshake, initial,
    key_log, one_rtt,
};

const CLIENT_GREASED: Sender<'static> = Sender {
    greased: true,
    ..Sender::CLIENT
};
const SERVER_GREASED: Sender<'static> = Sender {
    greased: true,
    ..Sender::SERVER
};
/// Bodies of transport parameters with and without `grease_quic_bit`.
const WITH: &[u8] = &[0x6a, 0xb2, 0];
const WITHOUT: &[u8] = &[0x0c, 0];

/// A table with a ClientHello, with `grease_quic_bit` or without, and the server's answer.
fn answered(keys: &str, client_takes: bool) -> Feed {
    let mut feed = Feed::new(keys);
    feed.log_packets();
    let hello = F::Crypto(0, client_hello_with_grease(5, "www.example.net"));
    let frames = if client_takes {
        [hello]
    } else {
        [F::ClientHello]
    };
    feed.packets(0, true, &[initial(0, &frames)])
        .expect("a connection");
    feed.packets(10, false, &[ANSWER]);
    feed.logged();
    feed
}

/// A packet's logged type, and whether it was decrypted.
fn fate(feed: &mut Feed, sender: &Sender<'_>, packet: P<'_>) -> (&'static str, bool) {
    feed.sent(20, sender, &[packet]).expect("its connection");
    let logged = feed.logged();
    (logged[0].0, logged[0].1)
}

#[test]
fn a_client_that_takes_them_gets_them() {
    let packets = [
        (handshake(3, &[F::Ping]), "handshake"),
        (one_rtt(3, &[F::Ping]), "1rtt"),
    ];
    for (packet, kind) in packets {
        for keys in [String::new(), key_log()] {
            let opened = !keys.is_empty();
            let mut feed = answered(&keys, true);
            assert_eq!(fate(&mut feed, &SERVER_GREASED, packet), (kind, opened));
            let mut feed = answered(&keys, false);
            assert_eq!(
                fate(&mut feed, &SERVER_GREASED, packet),
                ("unparsed", false),
                "{kind}"
            );
        }
    }
}

#[test]
fn a_server_that_takes_them_gets_them() {
    for (parameters, taken) in [(WITH, true), (WITHOUT, false)] {
        let mut feed = answered(&key_log(), false);
        let extensions = F::Crypto(0, encrypted_extensions(parameters));
        feed.packets(11, false, &[handshake(0, &[extensions])]);
        feed.logged();
        let expected = if taken {
            ("1rtt", true)
        } else {
            ("unparsed", false)
        };
        let packet = one_rtt(3, &[F::Ping]);
        assert_eq!(fate(&mut feed, &CLIENT_GREASED, packet), expected);
    }
}

#[test]
fn without_keys_a_server_gets_what_is_addressed_to_it() {
    for packet in [one_rtt(3, &[F::Ping]), handshake(3, &[F::Ping])] {
        let mut feed = answered("unparsed", false);
        let (kind, opened) = fate(&mut feed, &CLIENT_GREASED, packet);
        assert!(kind != "unparsed" && !opened);
        let other = Sender {
            to: Some(&[9; 8]),
            ..CLIENT_GREASED
        };
        assert_eq!(fate(&mut feed, &other, packet), ("unparsed", false));
    }
}

#[test]
fn an_initial_is_proven_by_its_keys() {
    let mut feed = answered("unparsed", false);
    let again = initial(1, &[F::Ping]);
    assert_eq!(fate(&mut feed, &SERVER_GREASED, again), ("initial", true));
    assert_eq!(fate(&mut feed, &CLIENT_GREASED, again), ("initial", true));
    let wrong = Sender {
        odcid: [9; 8],
        ..SERVER_GREASED
    };
    assert_eq!(fate(&mut feed, &wrong, again), ("initial", false));
}

#[test]
fn zeros_behind_a_packet_are_none() {
    let mut feed = answered(&key_log(), true);
    let mut bytes = SERVER_GREASED.datagram(&[handshake(3, &[F::Ping])]);
    bytes.extend([0; 40]);
    feed.bytes(20, false, &bytes).expect("its connection");
    assert_eq!(feed.logged().len(), 1);
}
