//! Random frames in packets that authenticate, at every stage of a connection, and random datagrams. The client does
//! not panic, and its memory and its sent volume stay bounded.
//!
//! FIRSTFLIGHT_FUZZ_SECONDS sets the time (default 1).

use std::time::{Duration, Instant};

use firstflight_wire::Writer;
use firstflight_wire::tls::{number, write_server_hello};

use super::*;
use crate::connection::receive::{Arrival, Named};
use crate::numbers::Numbers;

impl Numbers {
    /// Integers at the limits of offsets and lengths, and numbers of streams and frames.
    fn integer(&mut self) -> u64 {
        const EDGES: [u64; 16] = [
            0,
            0,
            0,
            1,
            2,
            3,
            4,
            7,
            63,
            64,
            1 << 14,
            (64 << 10) - 1,
            96 << 10,
            (1 << 30) - 1,
            (1 << 62) - 2,
            (1 << 62) - 1,
        ];
        EDGES[self.next(EDGES.len())]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next(256) as u8).collect()
    }

    /// A frame's content: TLS messages and HTTP/3, possibly with a damaged byte, or noise.
    fn data(&mut self) -> Vec<u8> {
        let mut data = match self.next(6) {
            0 => hello(),
            1 => [&OK[..], &SETTINGS].concat(),
            2 => SETTINGS.to_vec(),
            3 => [&[0, 4, 0, 7, 1][..], &[4], &[13, 1, 1], &OK].concat(),
            // A ticket, and the header of an incomplete message.
            4 => [&[4, 0, 0, 20][..], &[0; 20], &[11, 0xff, 0xff, 0xff]].concat(),
            _ => {
                let length = self.next(300);
                self.bytes(length)
            }
        };
        if self.next(2) == 0 && !data.is_empty() {
            let place = self.next(data.len());
            data[place] = self.next(256) as u8;
        }
        data
    }

    /// Frames of every type with random integers. Some are truncated.
    fn frames(&mut self) -> Vec<u8> {
        // Type, number of integers, whether a length and data follow (RFC 9000 19).
        const KINDS: [(u8, usize, bool); 26] = [
            (0x01, 0, false),
            (0x02, 4, false),
            (0x03, 7, false),
            (0x04, 3, false),
            (0x05, 2, false),
            (0x06, 1, true),
            (0x06, 1, true),
            (0x07, 0, true),
            (0x0a, 1, true),
            (0x0b, 1, true),
            (0x0e, 2, true),
            (0x0f, 2, true),
            (0x10, 1, false),
            (0x11, 2, false),
            (0x12, 1, false),
            (0x14, 1, false),
            (0x15, 2, false),
            (0x16, 1, false),
            (0x18, 2, true),
            (0x19, 1, false),
            (0x1a, 1, false),
            (0x1c, 2, true),
            (0x1d, 1, true),
            (0x1e, 0, false),
            (0x30, 0, false),
            (0x31, 0, true),
        ];
        let mut out = vec![0; 8192];
        let mut w = Writer::new(&mut out);
        for _ in 0..=self.next(10) {
            let (kind, integers, has_data) = KINDS[self.next(KINDS.len())];
            w.u8(kind).unwrap();
            for _ in 0..integers {
                w.varint(self.integer()).unwrap();
            }
            if has_data {
                w.varint_bytes(&self.data()).unwrap();
            }
        }
        let mut frames = w.written().to_vec();
        if self.next(20) == 0 {
            frames.truncate(self.next(frames.len()));
        }
        frames
    }
}

fn hello() -> Vec<u8> {
    let mut out = [0; 200];
    let mut w = Writer::new(&mut out);
    let suite = number::TLS_AES_128_GCM_SHA256;
    write_server_hello(&mut w, &[3; 32], &[], suite, number::X25519, &[9; 32]).unwrap();
    w.written().to_vec()
}

/// Sends the client's datagrams, to the server if `world` has one. Returns the number of datagrams.
fn sent(client: &mut Connection, world: &mut World) -> usize {
    let (mut room, mut count) = ([0; 2048], 0);
    while let Some(datagram) = client.transmit(world.now, &mut room).unwrap() {
        client.stamped(datagram.number, world.now as i64);
        world.serve(&room[..datagram.size]);
        count += 1;
        assert!(count < 20, "it sends without end");
    }
    count
}

/// A client after this number of flights of the server.
fn after(flights: usize, shared: &Arc<Context>) -> (Connection, World) {
    let mut world = World::new(b"h3");
    world.answer = Reaction::Nothing;
    let mut client = client_with(shared.clone());
    for _ in 0..flights {
        sent(&mut client, &mut world);
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
    (client, world)
}

fn check_bounds(client: &Connection) {
    let observed = &client.observed;
    assert!(client.held.len() <= 8 && client.spaces.iter().all(|space| space.sent.len() < 100));
    let kept = |space: &Space| space.incoming.contiguous().len() <= 96 << 10;
    assert!(client.spaces.iter().all(kept));
    let reason = observed
        .close
        .as_ref()
        .map_or(0, |close| close.reason.len());
    assert!(reason <= 3000 && observed.detail.as_ref().is_none_or(|text| text.len() < 500));
    assert!(
        observed
            .versions
            .as_ref()
            .is_none_or(|list| list.len() <= 64 * 11)
    );
}

#[test]
fn no_frames_make_it_panic() {
    let seconds = std::env::var("FIRSTFLIGHT_FUZZ_SECONDS").ok();
    let seconds: f64 = seconds.and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let shared = context(KeyShare::X25519, Verify::Signature);
    let (mut numbers, mut rounds, mut ended) = (Numbers(3), 0, 0);
    while rounds < 200 || Instant::now() < until {
        let (mut client, mut world) = after(rounds % 3, &shared);
        for packet in 0..30 {
            world.now += MS * numbers.next(40) as Mono;
            let arrival = Arrival {
                at: world.now as i64,
                datagram: packet as u16 + 5,
                own: world.now as i64,
                came: world.now,
                now: world.now,
            };
            if numbers.next(8) == 0 {
                let length = numbers.next(60);
                let noise = numbers.bytes(length);
                let mut datagram = [&[0x40 | noise.len() as u8][..], &CLIENT, &noise].concat();
                client.receive(
                    arrival.at,
                    Times {
                        came: arrival.came,
                        now: arrival.now,
                    },
                    &mut datagram,
                );
            } else {
                let levels = Level::ALL;
                let open = |level: &&Level| client.spaces[**level as usize].keys.is_some();
                let open: Vec<&Level> = levels.iter().filter(open).collect();
                let level = *open[numbers.next(open.len())];
                let frames = numbers.frames();
                client.frames(
                    arrival,
                    level,
                    Named {
                        kind: "any",
                        number: packet as u64,
                    },
                    &frames,
                );
            }
            check_bounds(&client);
            sent(&mut client, &mut world);
            if client.is_over() {
                ended += 1;
                break;
            }
            client.expire(world.now);
        }
        rounds += 1;
    }
    println!("{rounds} connections, of which frames ended {ended}");
    assert!(ended > 0);
}
