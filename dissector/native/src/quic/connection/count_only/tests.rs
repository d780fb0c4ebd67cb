//! Compares counted datagrams with fully processed ones.

use super::super::testing::{
    ANSWER, F, Feed, HELLO, MS, ODCID, P, datagram, handshake, initial, key_log, one_rtt, retry,
    zero_rtt,
};
use super::*;
use crate::quic::recovery::Space;

/// A connection without keys in which only counters can change, at 30 ms, with a packet log or without.
fn over(has_log: bool) -> Feed {
    let mut feed = Feed::new("");
    if has_log {
        feed.log_packets();
    }
    feed.packets(0, true, &[HELLO]).unwrap();
    feed.packets(10, false, &[ANSWER, handshake(0, &[F::Ping])])
        .unwrap();
    feed.packets(20, true, &[handshake(0, &[F::Ping])]).unwrap();
    let (connection, _) = feed.packets(30, false, &[one_rtt(0, &[F::Ping])]).unwrap();
    assert!(connection.count_only.is_active);
    feed
}

/// All counts for a connection.
fn counts(c: &Connection) -> impl PartialEq + std::fmt::Debug {
    let volume = &c.volume;
    (
        (c.packets.client, c.packets.server),
        (c.datagrams.client, c.datagrams.server),
        (c.undecrypted_packets, c.last_ns),
        (volume.client.packets, volume.server.packets),
        (volume.client.ip_bytes, volume.server.ip_bytes),
        (volume.is_guessed, volume.start_ns, volume.last_ns),
    )
}

type Datagrams<'a> = &'a [(i64, bool, &'a [P<'a>])];

#[test]
fn counted_datagrams_count_as_others_do() {
    let short = [one_rtt(1, &[F::Stream(0, 100)])];
    let two = [handshake(5, &[F::Ping]), one_rtt(6, &[F::Ping])];
    let three = [
        zero_rtt(7, &[F::Ping]),
        handshake(8, &[F::Ping]),
        one_rtt(9, &[F::Ping]),
    ];
    let initial = [initial(9, &[F::Ping])];
    let stories: &[Datagrams<'_>] = &[
        &[(40, true, &short)],
        &[(40, false, &short)],
        &[(40, true, &short), (41, true, &short), (42, false, &short)],
        &[(40, true, &two), (41, false, &two)],
        &[(40, true, &three)],
        // Captured out of order.
        &[(25, true, &short), (50, false, &short), (45, false, &short)],
        // A fully processed packet in between.
        &[(40, true, &short), (41, true, &initial), (42, true, &short)],
    ];
    for (i, story) in stories.iter().enumerate() {
        for is_guessed in [false, true] {
            let [counted, whole] = [false, true].map(|has_log| {
                let mut feed = over(has_log);
                feed.is_guessed = is_guessed;
                for (ms, from_client, packets) in *story {
                    let found = feed.packets(*ms, *from_client, packets).unwrap();
                    assert_eq!(found.1, *from_client);
                    assert!(has_log || found.0.count_only.is_active);
                }
                feed.one()
            });
            assert_eq!(counts(&counted), counts(&whole), "{i}");
            assert!(!counted.count_only.has_counts);
        }
    }
}

#[test]
fn counts_wait_until_they_are_asked_for() {
    let mut feed = over(false);
    let before = feed
        .packets(31, false, &[one_rtt(1, &[F::Ping])])
        .unwrap()
        .0;
    assert!(before.count_only.has_counts);
    assert_eq!((before.datagrams.server, before.last_ns), (1, 31 * MS));
    let packets = [handshake(5, &[F::Ping]), one_rtt(6, &[F::Ping])];
    feed.packets(29, true, &packets).unwrap();
    // A fully processed datagram.
    let (connection, _) = feed.packets(30, true, &[initial(9, &[F::Ping])]).unwrap();
    assert!(!connection.count_only.has_counts);
    assert_eq!(
        (connection.datagrams.client, connection.datagrams.server),
        (4, 3)
    );
    let connection = feed.one();
    assert_eq!(
        (connection.packets.client, connection.packets.server),
        (5, 4)
    );
    // All but the Initials.
    assert_eq!(
        (connection.undecrypted_packets, connection.last_ns),
        (6, 31 * MS)
    );
    assert_eq!(connection.volume.last_ns, 31 * MS);
}

/// Who sends which packets.
type Steps<'a> = &'a [(bool, &'a [P<'a>])];

#[test]
fn nothing_is_only_counted_before_all_is_known() {
    // With keys, before the client's Handshake packet, before a Handshake packet of the server.
    let stories: [(String, Steps<'_>); 3] = [
        (
            key_log(),
            &[
                (false, &[ANSWER, handshake(0, &[F::Ping])]),
                (true, &[handshake(0, &[F::Ping])]),
            ],
        ),
        (
            String::new(),
            &[
                (false, &[ANSWER, handshake(0, &[F::Ping])]),
                (true, &[one_rtt(0, &[F::Ping])]),
            ],
        ),
        (
            String::new(),
            &[(false, &[ANSWER]), (true, &[handshake(0, &[F::Ping])])],
        ),
    ];
    for (i, (keys, steps)) in stories.iter().enumerate() {
        let mut feed = Feed::begun(keys);
        for (from_client, packets) in *steps {
            feed.packets(10, *from_client, packets).unwrap();
        }
        let (connection, _) = feed.packets(20, false, &[one_rtt(0, &[F::Ping])]).unwrap();
        assert!(
            !connection.count_only.is_active && !connection.count_only.has_counts,
            "{i}"
        );
        assert!(i > 0 || connection.undecrypted_packets == 0);
    }
}

#[test]
fn initial_keys_are_dropped_when_only_counts_are_left() {
    let mut feed = over(false);
    let (connection, _) = feed.packets(31, true, &[one_rtt(0, &[F::Ping])]).unwrap();
    assert!(connection.initial_keys.is_none());
    let (connection, _) = feed.packets(32, true, &[initial(7, &[F::Ping])]).unwrap();
    // It opened.
    assert_eq!(connection.numbers.largest(Space::Initial, true), Some(7));
    assert!(connection.initial_keys.is_none());
}

#[test]
fn datagrams_of_protected_packets_only_are_counted_by_packet() {
    let sealed = |packets: &[P<'_>]| datagram(false, ODCID, &[], packets);
    let long = handshake(0, &[F::Ping]);
    let short = one_rtt(0, &[F::Ping]);
    for (datagram, packets) in [
        (sealed(&[long]), Some(1)),
        (sealed(&[short]), Some(1)),
        (sealed(&[long, long, short]), Some(3)),
        (sealed(&[long, zero_rtt(0, &[F::Ping])]), Some(2)),
        ([sealed(&[long]), vec![0; 9]].concat(), Some(1)),
        ([sealed(&[long]), vec![0, 0, 1]].concat(), None),
        (sealed(&[ANSWER]), None),
        (sealed(&[long, ANSWER]), None),
        ([sealed(&[long]), retry()].concat(), None),
        (vec![0x40; 20], None),
        (vec![0; 30], None),
        (vec![], None),
    ] {
        assert_eq!(protected_packets(&datagram), packets);
    }
}
