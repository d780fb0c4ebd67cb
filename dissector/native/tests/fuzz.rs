//! The fuzz targets on the stable toolchain, for a bounded time, with reproducibly damaged samples.
//!
//! FIRSTFLIGHT_FUZZ_SECONDS sets the time per target (default 1). For cargo-fuzz, `FIRSTFLIGHT_FUZZ_SEEDS=DIR
//! cargo test --release --test fuzz -- --ignored` writes the samples of each target to DIR/TARGET.

#[path = "../../../tests/numbers.rs"]
mod numbers;
#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use numbers::Numbers;

impl Numbers {
    /// A value at the edge of lengths and counts, or any value.
    fn byte(&mut self) -> u8 {
        let edges = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xfe, 0xff];
        if self.next(3) == 0 {
            self.next(256) as u8
        } else {
            edges[self.next(edges.len())]
        }
    }

    /// Overwrites, removes or repeats bytes, or inserts bytes of another sample.
    fn damage(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.next(4) {
            let at = self.next(bytes.len());
            let length = 1 + self.next(32);
            let end = (at + length).min(bytes.len());
            match self.next(8) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                3 => {
                    let from = self.next(other.len());
                    let part = &other[from..(from + length).min(other.len())];
                    bytes.splice(at..end, part.iter().copied());
                }
                _ => {
                    let value = self.byte();
                    if let Some(place) = bytes.get_mut(at) {
                        *place = value;
                    }
                }
            }
        }
    }
}

/// Samples for every target: whole files, frames, datagrams, and the content of packets.
fn samples() -> Vec<Vec<u8>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut samples = Vec::new();
    for path in files(&here.join("../../tests/fixtures/interop")) {
        let bytes = fs::read(&path).expect("a sample can be read");
        if path.extension().is_some_and(|e| e == "pcap") {
            let mut at = 24;
            while let Some(head) = bytes.get(at..at + 16) {
                let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
                let Some(frame) = bytes.get(at + 16..at + 16 + length) else {
                    break;
                };
                samples.push([&[2], frame].concat());
                // After PPP, IPv4 and UDP.
                samples.push(frame.get(30..).unwrap_or_default().to_vec());
                at += 16 + length;
            }
        }
        samples.push(bytes);
    }
    for path in files(&here.join("../../wire/testdata")) {
        let text = fs::read_to_string(path).expect("a vector can be read");
        let digits: Vec<u8> = text
            .chars()
            .filter_map(|c| Some(c.to_digit(16)? as u8))
            .collect();
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|p| p[0] << 4 | p[1]).collect();
        // The content of frames is after the header, the ClientHello after the header of its CRYPTO frame.
        for skip in [0, 20, 22, 24, 26] {
            samples.push(bytes.get(skip..).unwrap_or_default().to_vec());
        }
    }
    samples.retain(|sample| !sample.is_empty());
    samples
}

/// The samples for a target. Targets without special samples get all of them.
fn samples_of(name: &str, samples: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let whole = samples.iter().filter(|sample| is_capture(sample));
    match name {
        "capture" => whole.cloned().collect(),
        "compressed" => whole
            .take(4)
            .flat_map(|sample| compressed(sample))
            .collect(),
        // The first bytes select how the rest is used, so any short samples are suitable.
        "pcapng" | "fragments" | "tcp_conversation" | "sealed_protected" | "padding" => {
            let short = samples.iter().filter(|sample| !is_capture(sample));
            short
                .map(|sample| sample[..sample.len().min(400)].to_vec())
                .collect()
        }
        // The captures have no unencrypted samples for these targets.
        "http3" => http3().into_iter().chain(samples.to_vec()).collect(),
        "tls" => [PARAMETERS.to_vec()]
            .into_iter()
            .chain(samples.to_vec())
            .collect(),
        _ => samples.to_vec(),
    }
}

/// Transport parameters: every type of value, a repeated one, a reserved one, one of an extension.
const PARAMETERS: &[u8] = b"\x01\x02\x67\x10\x04\x04\x80\x10\0\0\x0c\0\x0f\x04abcd\x04\x01\x05\x40\x5d\x02xy\
    \x80\0\xde\x1a\x01\x19\xc0\0\0\0\xff\x04\xde\x1b\x01\x07\x20\x04\x80\x01\0\0\x2a\xb2\0\x11\x08\0\0\0\x01\0\0\0\x01";

/// HTTP/3 streams of a server, after a byte that selects the size of pieces: HEADERS with the static table, with
/// literals and with Huffman codes; informational responses; SETTINGS, GOAWAY and instructions.
fn http3() -> Vec<Vec<u8>> {
    let streams: [&[u8]; 7] = [
        b"\x01\x03\0\0\xd9\0\x02ab",
        b"\x01\x12\0\0\xd9\x5f\x4d\x03abc\x23x-y\x01z\x51\x01/\x01\x02\0\0",
        b"\x01\x16\0\0\xd9\x2f\x01\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
        b"\x01\x03\0\0\xd8\x21\x01x\x01\x04\0\0\xff\x05",
        b"\0\x04\x07\x01\x50\0\x07\x10\x33\x01\x07\x01\x04\x07\x01\0\x40\x21\x02ab",
        b"\x02\x20\x3f\xe1\x1f\xc0\x01a",
        b"\x40\x54ab",
    ];
    let sized = |stream: &&[u8]| [1, 7, 255].map(|size| [&[size], *stream].concat());
    streams.iter().flat_map(sized).collect()
}

fn is_capture(sample: &[u8]) -> bool {
    sample.starts_with(&[0xd4, 0xc3, 0xb2, 0xa1]) || sample.starts_with(&[0x4d, 0x3c, 0xb2, 0xa1])
}

fn compressed(sample: &[u8]) -> [Vec<u8>; 2] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(sample).expect("memory takes it");
    let zstd = zstd::encode_all(sample, 1).expect("memory takes it");
    [gzip.finish().expect("memory takes it"), zstd]
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("the samples stand in the repository");
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    found.sort();
    found
}

fn seconds() -> f64 {
    let set = std::env::var("FIRSTFLIGHT_FUZZ_SECONDS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(1.0)
}

#[test]
fn every_target_takes_any_bytes() {
    let all = samples();
    let mut numbers = Numbers(11);
    for (name, target) in targets::TARGETS {
        let samples = samples_of(name, &all);
        for sample in &samples {
            target(sample);
        }
        let until = Instant::now() + Duration::from_secs_f64(seconds());
        let mut count = 0u64;
        while Instant::now() < until {
            let mut bytes = samples[numbers.next(samples.len())].clone();
            let other = numbers.next(samples.len());
            numbers.damage(&mut bytes, &samples[other]);
            let outcome = catch_unwind(AssertUnwindSafe(|| target(&bytes)));
            assert!(
                outcome.is_ok(),
                "{name} panicked on {}",
                bytes.escape_ascii()
            );
            count += 1;
        }
        println!("{name}: {count} inputs");
        assert!(count > 0);
    }
}

#[test]
#[ignore = "writes the seeds of cargo-fuzz"]
fn seeds() {
    let folder =
        std::env::var_os("FIRSTFLIGHT_FUZZ_SEEDS").expect("FIRSTFLIGHT_FUZZ_SEEDS names a folder");
    let all = samples();
    for (name, _) in targets::TARGETS {
        let place = Path::new(&folder).join(name);
        fs::create_dir_all(&place).expect("the folder can be made");
        for (n, sample) in samples_of(name, &all).iter().enumerate() {
            fs::write(place.join(format!("{n:04}")), sample).expect("a seed can be written");
        }
    }
}
