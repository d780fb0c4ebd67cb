//! Servers that never answer, send too much, or send arbitrary bytes.

use firstflight_wire::{LongHeader, PacketType, build_packet, write_ping};
use rustls::Side;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;

use super::*;

#[test]
fn a_server_that_never_answers_is_sent_little() {
    let mut client = client();
    let (mut now, mut sent, mut room) = (0, 0, [0; 2048]);
    while !client.is_over() {
        while client.transmit(now, &mut room).unwrap().is_some() {
            sent += 1;
        }
        now = client.next_at().unwrap().max(now);
        client.expire(now);
    }
    assert_eq!(client.observed.outcome, Some(Outcome::Timeout));
    assert_eq!((now, sent), (10_000 * MS, 4), "after 1, 3 and 7 seconds");
    assert_eq!(client.transmit(now, &mut room), Ok(None), "nobody to close");
}

#[test]
fn a_server_that_floods_is_sent_little() {
    let (mut client, mut room) = (client(), [0; 2048]);
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let (v1, cid) = (quic::Version::V1, client.original);
    let keys = quic::Keys::initial(v1, suite, suite.quic.unwrap(), cid.as_slice(), Side::Server);
    let keys = SpaceKeys::from(keys);
    let (mut now, mut sent) = (0, 0);
    for packet_number in 0..2000 {
        while client.transmit(now, &mut room).unwrap().is_some() {
            sent += 1;
        }
        now += MS;
        let header = LongHeader {
            kind: PacketType::Initial,
            version: Version::V1,
            dcid: client.client_cid.into(),
            scid: [1; 8].into(),
            token: &[],
            packet_number,
            pn_len: 2,
        };
        let size = build_packet(&mut room, &header, &keys, None, write_ping).unwrap();
        client.receive(
            packet_number as i64,
            Times { came: now, now },
            &mut room[..size],
        );
        client.expire(now);
    }
    assert_eq!(client.observed.outcome, None);
    // A probe after a second, and the acknowledgements.
    assert!((100..=202).contains(&sent), "{sent}");
}

#[test]
fn an_unreachable_port_ends_only_what_was_never_answered() {
    let mut unanswered = client();
    unanswered.icmp(3, 1, false);
    assert_eq!(unanswered.observed.outcome, None);
    unanswered.icmp(3, 3, true);
    assert_eq!(unanswered.observed.outcome, Some(Outcome::Refused));
    assert_eq!(unanswered.observed.icmp, Some((3, 1)));
    let mut answered = client();
    answered.server_cid = Some([1; 8].into());
    answered.icmp(3, 3, true);
    assert_eq!(answered.observed.outcome, None);
}

#[test]
fn what_a_server_says_is_kept_in_part_if_it_is_long() {
    let answer = |bytes: &mut [u8], client: &mut Connection| {
        client.receive(1, Times { came: MS, now: MS }, bytes)
    };
    let mut negotiation = [0; 8192];
    let versions = vec![Version::V2; 1000];
    let size = firstflight_wire::write_version_negotiation(
        &mut negotiation,
        &CLIENT.into(),
        &[8; 8].into(),
        &versions,
        0,
    )
    .unwrap();
    let mut client = client();
    answer(&mut negotiation[..size], &mut client);
    assert_eq!(client.observed.outcome, Some(Outcome::VersionNegotiation));
    let list = client.observed.versions.unwrap();
    assert_eq!(list.split(',').count(), 64);
}

#[test]
fn no_bytes_make_it_panic() {
    // A small generator is enough, if every byte is changed and every length is cut.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let shared = context(KeyShare::X25519, Verify::None);
    for _ in 0..300 {
        let mut world = World::new(b"h3");
        let mut client = client_with(shared.clone());
        let mut room = [0; 2048];
        for round in 0..4 {
            while let Some(datagram) = client.transmit(world.now, &mut room).unwrap() {
                world.serve(&room[..datagram.size]);
            }
            world.drive();
            world.now += 30 * MS;
            for (_, _, mut bytes) in std::mem::take(&mut world.wire) {
                if random() % 3 == 0 {
                    let place = random() % bytes.len();
                    bytes[place] ^= random() as u8;
                }
                if random() % 5 == 0 {
                    bytes.truncate(random() % (bytes.len() + 1));
                }
                client.receive(
                    round,
                    Times {
                        came: world.now,
                        now: world.now,
                    },
                    &mut bytes,
                );
            }
            client.expire(world.now);
        }
    }
}
