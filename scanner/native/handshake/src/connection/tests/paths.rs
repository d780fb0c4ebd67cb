//! Connection IDs that change and paths that are probed (RFC 9000 5.1, 8.2).

use std::time::Duration;

use firstflight_wire::{Frame, Frames};
use quinn_proto::{ConnectionIdGenerator, Endpoint, EndpointConfig, HashedConnectionIdGenerator};

use super::*;
use crate::connection::receive::{Arrival, Named};

/// NEW_CONNECTION_ID with an ID of 8 bytes.
fn new_id(sequence: u8, retire_prior_to: u8) -> Vec<u8> {
    let head = [0x18, sequence, retire_prior_to, 8];
    [&head[..], &[sequence; 8], &[0; 16]].concat()
}

/// A client with a complete handshake that waits for the response.
pub(super) fn waiting_client() -> (Connection, World) {
    let mut world = World::new(b"h3");
    world.answer = Reaction::Nothing;
    let (mut client, mut room) = (client(), [0; 2048]);
    for _ in 0..2 {
        while let Some(datagram) = client.transmit(world.now, &mut room).unwrap() {
            world.serve(&room[..datagram.size]);
        }
        world.drive();
        world.now += 30 * MS;
        for (_, _, mut bytes) in std::mem::take(&mut world.wire) {
            client.receive(
                world.now as i64,
                Times {
                    came: world.now,
                    now: world.now,
                },
                &mut bytes,
            );
        }
    }
    assert!(client.observed.confirmed.is_some());
    while client.transmit(world.now, &mut room).unwrap().is_some() {}
    (client, world)
}

/// Passes frames in a 1-RTT packet to a client.
fn take(client: &mut Connection, now: Mono, frames: &[u8]) {
    let arrival = Arrival {
        at: now as i64,
        datagram: 9,
        own: now as i64,
        came: now,
        now,
    };
    client.frames(
        arrival,
        Level::Data,
        Named {
            kind: "1rtt",
            number: 9,
        },
        frames,
    );
}

#[test]
fn a_server_that_changes_its_connection_id_is_followed() {
    for lost in [usize::MAX, 2, 3, 4] {
        let mut world = World::new(b"h3");
        let mut endpoint = EndpointConfig::default();
        endpoint.cid_generator(|| -> Box<dyn ConnectionIdGenerator> {
            let mut ids = HashedConnectionIdGenerator::new();
            ids.set_lifetime(Duration::from_secs(2));
            Box::new(ids)
        });
        let config = Arc::new(world.config.clone());
        world.endpoint = Endpoint::new(Arc::new(endpoint), Some(config), true, None);
        world.answer = Reaction::Nothing;
        world.fate = (0, lost, Fate::Lost);
        let mut client = client();
        world.run(&mut client);
        assert_eq!(client.observed.outcome, Some(Outcome::Done), "{lost}");
        assert_eq!(client.observed.detail, None, "{lost}");
        let (_, server) = world.server.as_ref().unwrap();
        let retired = server.stats().frame_rx.retire_connection_id;
        assert!(retired >= 2, "{lost}: {retired}");
        assert_ne!(client.peer_ids.current(), client.server_cid, "{lost}");
    }
}

#[test]
fn a_path_is_confirmed_by_its_challenge() {
    let mut world = World::new(b"h3");
    world.answer = Reaction::Nothing;
    world.moves = 2;
    let mut client = client();
    world.run(&mut client);
    let (_, server) = world.server.as_ref().unwrap();
    let (sent, answered) = (server.stats().frame_tx, server.stats().frame_rx);
    assert!(sent.path_challenge >= 1);
    assert_eq!(answered.path_response, sent.path_challenge);
    assert_eq!(client.observed.outcome, Some(Outcome::Done));
}

#[test]
fn what_is_sent_for_ids_and_challenges_is_bounded() {
    let (mut client, world) = waiting_client();
    let (mut room, mut sizes) = ([0; 2048], Vec::new());
    let challenges: Vec<u8> = (0..100)
        .flat_map(|number| [&[0x1a][..], &[number; 8]].concat())
        .collect();
    for _ in 0..20 {
        take(&mut client, world.now, &challenges);
        while let Some(datagram) = client.transmit(world.now, &mut room).unwrap() {
            sizes.push(datagram.size);
        }
    }
    assert_eq!(client.observed.outcome, None);
    // Eight answers fit into a datagram, which is padded (RFC 9000 8.2.2).
    assert_eq!(sizes.first(), Some(&1200));
    let full = sizes.iter().filter(|size| **size == 1200).count();
    assert_eq!(full, 1, "{sizes:?}");
    assert!(client.challenges.is_empty());
}

#[test]
fn broken_rules_of_connection_ids_end_a_connection() {
    let flood: Vec<u8> = (2..=30).flat_map(|number| new_id(number, 0)).collect();
    let retired: Vec<u8> = (2..=30).flat_map(|number| new_id(number, number)).collect();
    for (frames, wrong) in [
        (new_id(5, 5), None),
        (vec![0x19, 0], None),
        (vec![0x19, 1], Some("never issued")),
        (flood, Some("limit of 2")),
        (retired, Some("more retired")),
    ] {
        let (mut client, world) = waiting_client();
        let before = client.peer_ids.current();
        take(&mut client, world.now, &frames);
        match wrong {
            None => {
                assert_eq!(client.observed.outcome, None);
                let changed = client.peer_ids.current() != before;
                assert_eq!(changed, frames[0] == 0x18);
            }
            Some(text) => {
                assert_eq!(client.observed.outcome, Some(Outcome::Malformed));
                let detail = client.observed.detail.clone().unwrap();
                assert!(detail.contains(text), "{detail}");
            }
        }
    }
}

#[test]
fn challenges_before_the_handshake_are_no_frames_of_it() {
    let challenge = [&[0x1a][..], b"12345678"].concat();
    let frames: Vec<_> = Frames::new(&challenge).collect();
    assert_eq!(frames, [Ok(Frame::PathChallenge(*b"12345678"))]);
    let mut client = client();
    let arrival = Arrival {
        at: 1,
        datagram: 1,
        own: 1,
        came: 1,
        now: 1,
    };
    client.frames(
        arrival,
        Level::Initial,
        Named {
            kind: "initial",
            number: 0,
        },
        &challenge,
    );
    assert_eq!(client.observed.outcome, Some(Outcome::Malformed));
}
