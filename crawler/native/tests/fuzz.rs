//! Runs the fuzz target on the stable toolchain for a bounded time, with damaged tables that are the same in each run.
//! FIRSTFLIGHT_FUZZ_SECONDS sets the time (default 1).

#[path = "../../../tests/numbers.rs"]
mod numbers;
#[path = "../fuzz/target.rs"]
mod target;

use std::io::Write;
use std::time::{Duration, Instant};

use bzip2::Compression;
use bzip2::write::BzEncoder;

use numbers::Numbers;

/// A record with a type and subtype.
fn record(kind: u16, subtype: u16, body: &[u8]) -> Vec<u8> {
    let mut record = b"\x66\xb2\xd8\x00".to_vec();
    record.extend(kind.to_be_bytes());
    record.extend(subtype.to_be_bytes());
    record.extend((body.len() as u32).to_be_bytes());
    record.extend(body);
    record
}

/// A table with a peer index, a route of each family in both formats, a route with a path identifier, a generic route,
/// a set, a default route, and a record of another kind.
fn sample() -> Vec<u8> {
    // ORIGIN, then AS_PATH: a sequence of two and a set of two AS numbers, four bytes each.
    const PATH: &[u8] = b"\x40\x01\x01\x00\x40\x02\x14\x02\x02\0\0\x0d\x1c\0\0\x34\x17\x01\x02\0\0\x0d\x1d\0\0\x0d\x1e";
    const OLD_PATH: &[u8] = b"\x40\x02\x06\x02\x02\x0d\x1c\x34\x17";
    let route = |prefix: &[u8], attributes: &[u8]| {
        let mut body = b"\0\0\0\x01".to_vec();
        body.extend(prefix);
        body.extend(b"\0\x01\0\0\x66\xb2\xd8\0");
        body.extend((attributes.len() as u16).to_be_bytes());
        body.extend(attributes);
        body
    };
    // The path identifier precedes the length of the attributes (RFC 8050 4.1).
    let with_id = |mut body: Vec<u8>| {
        let at = body.len() - PATH.len() - 2;
        body.splice(at..at, *b"\0\0\0\x07");
        body
    };
    let old = |address: &[u8], bits: u8| {
        let mut body = b"\0\0\0\x01".to_vec();
        body.extend(address);
        body.extend([bits, 1, 0, 0, 0, 0]);
        body.extend(vec![0; address.len()]);
        body.extend(b"\x0d\x1c");
        body.extend((OLD_PATH.len() as u16).to_be_bytes());
        body.extend(OLD_PATH);
        body
    };
    [
        record(13, 1, b"\0\0\0\0\0\0\0\0"),
        record(13, 2, &route(b"\x18\xc6\x12\0", PATH)),
        record(13, 2, &route(b"\0", PATH)),
        record(13, 4, &route(b"\x20\x20\x01\x0d\xb8", PATH)),
        record(13, 6, b"\0\0\0\x01\0\x01\x80"),
        record(13, 6, &route(b"\0\x01\x01\x18\xc6\x12\x03", PATH)),
        record(13, 8, &with_id(route(b"\x18\xc6\x12\x02", PATH))),
        record(12, 1, &old(b"\xc6\x13\0\0", 16)),
        record(
            12,
            2,
            &old(b"\x20\x01\x0d\xb8\0\x01\0\0\0\0\0\0\0\0\0\0", 48),
        ),
    ]
    .concat()
}

fn compressed(table: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(table).expect("writing to memory");
    encoder.finish().expect("writing to memory")
}

#[test]
fn no_table_harms() {
    let seconds = std::env::var("FIRSTFLIGHT_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(1.0));
    let samples = [sample(), compressed(&sample())];
    for whole in &samples {
        assert!(target::table(whole));
    }
    let mut numbers = Numbers(7);
    let (mut rounds, mut whole) = (0, 0);
    while rounds < 1000 || Instant::now() < end {
        // One of eight inputs is compressed. A checksum rejects most of those before a record is read.
        let mut input = samples[usize::from(rounds % 8 == 0)].clone();
        for _ in 0..numbers.next(5) {
            let at = numbers.next(input.len());
            match numbers.next(6) {
                0 => input.truncate(at),
                1 => drop(input.drain(at..(at + 1 + numbers.next(9)).min(input.len()))),
                2 => input.insert(at, numbers.next(256) as u8),
                3 => {
                    let part = input[at..].to_vec();
                    input.extend(part);
                }
                _ => {
                    const EDGES: [u8; 8] = [0, 1, 2, 4, 0x20, 0x80, 0xfe, 0xff];
                    if let Some(byte) = input.get_mut(at) {
                        *byte = EDGES[numbers.next(EDGES.len())];
                    }
                }
            }
        }
        whole += usize::from(target::table(&input));
        rounds += 1;
    }
    // Damage that does not affect lengths leaves a valid table, so the checks of valid tables also run.
    assert!(whole * 20 > rounds, "{whole} of {rounds}");
}
