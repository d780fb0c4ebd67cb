//! Datagrams that the capture cut.

use super::*;

#[test]
fn cut_datagrams_of_the_server_end_the_answer() {
    let ack = datagram(false, ODCID, &[], &[initial(0, &[F::Ack(0, 0)])]);
    let two = [
        &ack[..],
        &datagram(false, ODCID, &[], &[handshake(0, &[F::Ping])]),
    ]
    .concat();
    let short = datagram(false, ODCID, &[], &[one_rtt(0, &[F::Stream(0, 50)])]);
    // Bytes sent and captured; packets, undecrypted packets; whether the answer is cut, whether there is a first ACK.
    for (bytes, captured, packets, undecrypted, is_cut, has_ack) in [
        (&ack, ack.len() - 1, 1, 1, true, false),
        (&ack, 10, 0, 1, true, false),
        (&ack, 0, 0, 0, true, false),
        (&two, ack.len() + 30, 2, 1, true, true),
        (&two, ack.len(), 1, 0, true, true),
        (&short, 20, 1, 1, false, false),
    ] {
        let mut feed = Feed::begun("");
        feed.cut(10, false, bytes, captured)
            .expect("its connection");
        feed.packets(
            20,
            false,
            &[initial(7, &[F::Ack(0, 0), F::ServerHello(WHOLE)])],
        )
        .unwrap();
        let connection = feed.one();
        let what = format!("{captured} of {}", bytes.len());
        assert!(connection.is_cut && !connection.is_open());
        assert_eq!(connection.packets.server, packets + 1, "{what}");
        assert_eq!(connection.undecrypted_packets, undecrypted, "{what}");
        assert_eq!(connection.timeline.attempt.answer_is_cut, is_cut, "{what}");
        assert_eq!(connection.timeline.first_ack_ns, has_ack.then_some(10 * MS));
        if is_cut {
            assert_eq!(answer(&connection), malformed(CUT));
        }
    }
}

#[test]
fn cut_datagrams_of_the_client_may_hide_a_hello() {
    let long = datagram(true, ODCID, &[], &[initial(1, &[F::ClientHello])]);
    let short = datagram(true, ODCID, &[], &[one_rtt(0, &[F::Stream(0, 50)])]);
    for (bytes, captured, hello_is_cut) in [
        (&long, 100, true),
        (&long, 3, true),
        (&long, 0, true),
        (&short, 30, false),
    ] {
        let mut feed = Feed::begun("");
        feed.cut(5, true, bytes, captured).expect("its connection");
        feed.packets(10, false, &[ANSWER]).unwrap();
        let connection = feed.one();
        assert!(connection.is_cut);
        assert_eq!(
            connection.timeline.attempt.hello_is_cut, hello_is_cut,
            "{captured}"
        );
        let expected = if hello_is_cut {
            malformed(CUT)
        } else {
            (Outcome::Coalesced, None)
        };
        assert_eq!(answer(&connection), expected);
    }
}

#[test]
fn a_handshake_packet_counts_by_its_type_even_if_it_is_cut() {
    let other = Sender {
        to: Some(&[9; 8]),
        ..Sender::SERVER
    };
    let packets = [handshake(0, &[F::Stream(0, 50)])];
    for (sender, captured, first_ns, fault) in [
        (Sender::SERVER, usize::MAX, Some(20 * MS), false),
        (Sender::SERVER, 40, Some(20 * MS), false),
        (other, usize::MAX, None, true),
        (other, 40, None, true),
    ] {
        let mut feed = Feed::begun("");
        feed.packets(10, false, &[initial(0, &[F::ServerHello(WHOLE)])])
            .unwrap();
        let bytes = sender.datagram(&packets);
        feed.cut(20, false, &bytes, captured).unwrap();
        let connection = feed.one();
        assert_eq!(
            connection.timeline.first_handshake_ns, first_ns,
            "{captured}"
        );
        let has_fault = connection.timeline.attempt.undecrypted
            != Some("Handshake packet before any ServerHello");
        assert_eq!(has_fault, fault, "{captured}");
        assert_eq!(connection.undecrypted_packets, 1);
    }
}

#[test]
fn the_clients_handshake_packet_validates_its_address() {
    for (kind, is_validated) in [
        (handshake(0, &[F::Ping]), true),
        (zero_rtt(0, &[F::Ping]), false),
        (one_rtt(0, &[F::Ping]), false),
    ] {
        for captured in [usize::MAX, 30] {
            let mut feed = Feed::answered("");
            let bytes = datagram(true, ODCID, &[], &[kind]);
            feed.cut(20, true, &bytes, captured).unwrap();
            feed.packets(30, false, &[one_rtt(0, &[F::Stream(0, 900)])])
                .unwrap();
            let connection = feed.one();
            let exchange = &connection.timeline.exchange;
            let answer_bytes = datagram(false, ODCID, &[], &[ANSWER]).len() as u64;
            assert_eq!(exchange.server_bytes == answer_bytes, is_validated);
        }
    }
}

#[test]
fn with_keys_a_cut_datagram_leaves_open_what_was_sent() {
    let mut feed = Feed::answered(&key_log());
    let (connection, _) = feed.packets(20, false, &[one_rtt(0, &[F::Ping])]).unwrap();
    assert!(connection.has_keys() && connection.is_open());
    let bytes = datagram(false, ODCID, &[], &[one_rtt(1, &[F::Stream(0, 50)])]);
    let (connection, _) = feed.cut(30, false, &bytes, 40).unwrap();
    assert!(connection.has_keys() && !connection.is_open());
}
