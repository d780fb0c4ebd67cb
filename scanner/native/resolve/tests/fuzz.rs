//! Runs the fuzz target on the stable toolchain for a bounded time, with damaged answers that are the same in
//! every run.
//!
//! FIRSTFLIGHT_FUZZ_SECONDS sets the time (default 1).

#[path = "../../../../tests/numbers.rs"]
mod numbers;
#[path = "../fuzz/target.rs"]
mod target;

use std::time::{Duration, Instant};

use numbers::Numbers;

/// Returns an answer for `www.a.test` with an alias and one record of each supported type.
fn sample(qtype: u8) -> Vec<u8> {
    const DATA: [(u16, &[u8]); 8] = [
        (1, b"\xc6\x12\0\x01"),
        (28, b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"),
        (
            65,
            b"\0\x01\0\0\x01\0\x03\x02h3\0\x03\0\x02\x20\xfb\0\x04\0\x04\xc6\x12\0\x01\0\x05\0\x1d\0\x1b\
              \xfe\x0d\0\x17\x2a\0\x20\0\x02kk\0\x04\0\x01\0\x01\0\x06a.test\0\0",
        ),
        (5, b"\x01c\xc0\x10"),
        (2, b"\x02ns\xc0\x10"),
        (15, b"\0\x0a\x02mx\xc0\x10"),
        (16, b"\x03abc\0\x02\"\\"),
        (257, b"\0\x05issueca.test"),
    ];
    let (kind, data) = DATA[usize::from(qtype) % DATA.len()];
    let mut message = vec![qtype];
    message.extend(b"\x12\x34\x81\x80\0\x01\0\x02\0\x01\0\x01\x03www\x01a\x04test\0");
    message.extend(kind.to_be_bytes());
    message.extend(b"\0\x01");
    message.extend(b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01b\xc0\x10");
    message.extend(b"\x01b\xc0\x10");
    message.extend(kind.to_be_bytes());
    message.extend(b"\0\x01\0\0\0\x3c");
    message.extend((data.len() as u16).to_be_bytes());
    message.extend(data);
    message.extend(b"\xc0\x10\0\x06\0\x01\0\0\0\x3c\0\0");
    message.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\x09\0\x0f\0\x05\0\x16abc");
    message
}

#[test]
fn no_answer_harms() {
    let seconds = std::env::var("FIRSTFLIGHT_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(1.0));
    let mut numbers = Numbers(7);
    let mut rounds = 0;
    while rounds < 1000 || Instant::now() < end {
        let mut input = sample(numbers.next(8) as u8);
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
                    const EDGES: [u8; 8] = [0, 1, 0x3f, 0x40, 0xc0, 0xc1, 0xfe, 0xff];
                    if let Some(byte) = input.get_mut(at) {
                        *byte = EDGES[numbers.next(EDGES.len())];
                    }
                }
            }
        }
        target::answer(&input);
        rounds += 1;
    }
    for qtype in 0..8 {
        target::answer(&sample(qtype));
    }
}
