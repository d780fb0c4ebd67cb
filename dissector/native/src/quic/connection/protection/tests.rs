//! Decryption with some of a key log's secrets.

use super::super::testing::{
    CLIENT_EARLY, CLIENT_HANDSHAKE, CLIENT_ONE_RTT, F, Feed, P, SERVER_HANDSHAKE, SERVER_ONE_RTT,
    Sender, client_hello, handshake, initial, key_log_of, one_rtt, server_hello, zero_rtt,
};
use super::*;

const AES_128: CipherSuite = CipherSuite::Aes128GcmSha256;

/// One packet of each type other than Initial: its secret, its sender.
fn kinds() -> [(u8, bool, P<'static>); 5] {
    [
        (CLIENT_EARLY, true, zero_rtt(0, &[F::Ping])),
        (CLIENT_HANDSHAKE, true, handshake(0, &[F::Ping])),
        (SERVER_HANDSHAKE, false, handshake(0, &[F::Ping])),
        (CLIENT_ONE_RTT, true, one_rtt(1, &[F::Ping])),
        (SERVER_ONE_RTT, false, one_rtt(0, &[F::Ping])),
    ]
}

#[test]
fn each_secret_opens_the_packets_of_one_kind_and_side() {
    for secrets in (0..5).map(|n| vec![kinds()[n].0]).chain([
        vec![CLIENT_ONE_RTT, SERVER_ONE_RTT],
        vec![CLIENT_HANDSHAKE, SERVER_HANDSHAKE],
        kinds().map(|(secret, ..)| secret).to_vec(),
        vec![],
    ]) {
        let mut feed = Feed::answered(&key_log_of(&secrets, AES_128));
        for (secret, by_client, packet) in kinds() {
            feed.log_packets();
            feed.packets(20, by_client, &[packet]).unwrap();
            let opened: Vec<bool> = feed.logged().iter().map(|(_, opened, _)| *opened).collect();
            assert_eq!(opened, [secrets.contains(&secret)], "{secrets:?} {secret}");
        }
        let connection = feed.one();
        let is_both = secrets.contains(&CLIENT_ONE_RTT) && secrets.contains(&SERVER_ONE_RTT);
        assert_eq!(
            (connection.has_keys(), connection.is_open()),
            (is_both, is_both)
        );
        assert_eq!(
            connection.protection.has_nothing_to_open(),
            secrets.is_empty()
        );
        let undecrypted = 5 - secrets.len() as u32;
        assert_eq!(connection.undecrypted_packets, undecrypted);
    }
}

#[test]
fn the_logs_are_searched_once_the_random_is_known() {
    // A Handshake packet does not start a connection, so the ClientHello is sent in pieces.
    let hello = client_hello(5, "www.example.net");
    let mut feed = Feed::new("");
    feed.packets(0, true, &[initial(0, &[F::Crypto(0, &hello[..30])])]);
    feed.packets(1, false, &[handshake(0, &[F::Ping])]);
    let all = [
        CLIENT_HANDSHAKE,
        SERVER_HANDSHAKE,
        CLIENT_ONE_RTT,
        SERVER_ONE_RTT,
    ];
    feed.table
        .key_log(key_log_of(&all[..2], AES_128).as_bytes());
    feed.packets(2, true, &[initial(1, &[F::Crypto(30, &hello[30..])])]);
    feed.log_packets();
    feed.packets(3, false, &[handshake(1, &[F::Ping])]);
    assert!(feed.logged()[0].1, "the log came before the random");
    feed.table
        .key_log(key_log_of(&all[2..], AES_128).as_bytes());
    feed.packets(4, false, &[one_rtt(0, &[F::Ping])]);
    assert!(!feed.logged()[0].1, "the log was searched before");
    assert!(!feed.one().has_keys());
}

#[test]
fn packets_open_under_each_suite_with_and_without_the_server_hello() {
    for (number, suite) in [
        (0x1301, CipherSuite::Aes128GcmSha256),
        (0x1302, CipherSuite::Aes256GcmSha384),
        (0x1303, CipherSuite::ChaCha20Poly1305Sha256),
    ] {
        for has_hello in [true, false] {
            let all = [
                CLIENT_HANDSHAKE,
                SERVER_HANDSHAKE,
                CLIENT_ONE_RTT,
                SERVER_ONE_RTT,
            ];
            let mut feed = Feed::begun(&key_log_of(&all, suite));
            if has_hello {
                let hello = server_hello(number);
                feed.packets(10, false, &[initial(0, &[F::Crypto(0, hello)])]);
                let connection = feed.packets(11, true, &[initial(1, &[F::Ping])]).unwrap().0;
                assert_eq!(connection.cipher_suite(), Some(suite));
            }
            for (_, by_client, packet) in &kinds()[1..] {
                let usual = if *by_client {
                    Sender::CLIENT
                } else {
                    Sender::SERVER
                };
                let sender = Sender { suite, ..usual };
                feed.sent(20, &sender, &[*packet]).unwrap();
            }
            let connection = feed.one();
            assert_eq!(connection.undecrypted_packets, 0, "{suite:?} {has_hello}");
            assert_eq!(connection.cipher_suite(), Some(suite));
        }
    }
}

#[test]
fn early_data_has_the_suite_of_its_session() {
    let (early, chosen) = (AES_128, CipherSuite::Aes256GcmSha384);
    let log = [
        key_log_of(&[CLIENT_EARLY], early),
        key_log_of(&[CLIENT_HANDSHAKE, SERVER_HANDSHAKE], chosen),
    ];
    for has_hello_first in [false, true] {
        let mut feed = Feed::begun(&log.concat());
        let frames = [F::Crypto(0, server_hello(0x1302))];
        let (hello, early_data) = (initial(0, &frames), zero_rtt(0, &[F::Ping]));
        if has_hello_first {
            feed.packets(10, false, &[hello]);
            feed.packets(11, true, &[early_data]);
        } else {
            feed.packets(10, true, &[early_data]);
            feed.packets(11, false, &[hello]);
        }
        let sender = Sender {
            suite: chosen,
            ..Sender::SERVER
        };
        feed.sent(20, &sender, &[handshake(0, &[F::Ping])]).unwrap();
        let connection = feed.one();
        assert_eq!(connection.cipher_suite(), Some(chosen));
        assert_eq!(connection.undecrypted_packets, 0, "{has_hello_first}");
    }
}

#[test]
fn a_packet_that_no_suite_opens_names_none() {
    let mut feed = Feed::begun(&key_log_of(&[SERVER_HANDSHAKE], AES_128));
    let mut bytes = Sender::SERVER.datagram(&[handshake(0, &[F::Ping])]);
    *bytes.last_mut().unwrap() ^= 1;
    feed.bytes(10, false, &bytes).unwrap();
    let connection = feed.one();
    assert_eq!(
        (connection.cipher_suite(), connection.undecrypted_packets),
        (None, 1)
    );
}

#[test]
fn key_updates_of_each_side_are_counted_and_kept_after_a_close() {
    let all = [CLIENT_ONE_RTT, SERVER_ONE_RTT];
    let mut feed = Feed::answered(&key_log_of(&all, AES_128));
    for (n, by_client, key_updates, expected) in [
        (0, true, 0, (0, 0)),
        (0, false, 0, (0, 0)),
        (1, true, 1, (1, 0)),
        (2, true, 2, (2, 0)),
        (1, false, 1, (2, 1)),
    ] {
        let usual = if by_client {
            Sender::CLIENT
        } else {
            Sender::SERVER
        };
        let sender = Sender {
            key_updates,
            ..usual
        };
        let (connection, _) = feed.sent(20, &sender, &[one_rtt(n, &[F::Ping])]).unwrap();
        assert_eq!(connection.undecrypted_packets, 0, "{n} {by_client}");
        assert_eq!(connection.key_updates(), expected, "{n} {by_client}");
    }
    let sender = Sender {
        key_updates: 1,
        ..Sender::SERVER
    };
    feed.sent(30, &sender, &[one_rtt(2, &[F::Close(1)])])
        .unwrap();
    feed.sent(31, &sender, &[one_rtt(3, &[F::Ping])]).unwrap();
    let connection = feed.one();
    assert!(connection.closed && connection.undecrypted_packets == 0);
    assert_eq!(connection.key_updates(), (2, 1));
}

#[test]
fn keys_that_the_secrets_give_again_are_dropped_after_a_close() {
    let all = [CLIENT_ONE_RTT, SERVER_ONE_RTT];
    let mut feed = Feed::answered(&key_log_of(&all, AES_128));
    feed.packets(20, true, &[one_rtt(0, &[F::Ping])]).unwrap();
    let (connection, _) = feed
        .packets(30, false, &[one_rtt(0, &[F::Close(1)])])
        .unwrap();
    assert!(connection.protection.keys.is_none() && connection.initial_keys.is_none());
    feed.packets(31, true, &[one_rtt(1, &[F::Ping])]).unwrap();
    assert_eq!(feed.one().undecrypted_packets, 0);
}

#[test]
fn the_server_sends_no_zero_rtt_packets() {
    let mut feed = Feed::begun(&key_log_of(&[CLIENT_EARLY], AES_128));
    let packets = [zero_rtt(0, &[F::Ping])];
    feed.packets(1, false, &packets).unwrap();
    feed.packets(2, true, &packets).unwrap();
    assert_eq!(feed.one().undecrypted_packets, 1);
}
