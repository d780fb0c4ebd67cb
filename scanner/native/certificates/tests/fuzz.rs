//! Runs the fuzz target on the stable toolchain for a bounded time. The input is certificates with damage
//! that repeats in every run.
//!
//! FIRSTFLIGHT_FUZZ_SECONDS sets the time (default 1). For cargo-fuzz, `FIRSTFLIGHT_FUZZ_SEEDS=DIR cargo test
//! --release --test fuzz -- --ignored` writes the samples to DIR.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../../../../tests/numbers.rs"]
mod numbers;
#[path = "../fuzz/target.rs"]
mod target;

use std::fs;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType,
    GeneralSubtree, IsCa, KeyPair, NameConstraints, SanType, date_time_ymd,
};

use numbers::Numbers;

impl Numbers {
    /// Overwrites bytes with tags, lengths and other values, removes parts, and duplicates parts.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        const EDGES: [u8; 20] = [
            0, 1, 2, 3, 4, 5, 6, 0x0c, 0x13, 0x17, 0x18, 0x1e, 0x30, 0x31, 0x7f, 0x80, 0x81, 0x82,
            0xa0, 0xff,
        ];
        for _ in 0..=self.next(4) {
            let at = self.next(bytes.len());
            let end = (at + 1 + self.next(24)).min(bytes.len());
            match self.next(10) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                3 => bytes.extend_from_within(at..),
                kind => {
                    let byte = match kind {
                        4 => self.next(256) as u8,
                        _ => EDGES[self.next(EDGES.len())],
                    };
                    if let Some(place) = bytes.get_mut(at) {
                        *place = byte;
                    }
                }
            }
        }
    }
}

fn parameters() -> CertificateParams {
    let mut of = CertificateParams::new(["a.example".to_owned()]).unwrap();
    of.not_before = date_time_ymd(2030, 1, 1);
    of.not_after = date_time_ymd(2031, 1, 1);
    of
}

/// Certificates with everything that the target reads: names of every type, constraints, timestamps, odd
/// texts.
fn samples() -> Vec<Vec<u8>> {
    let key = KeyPair::generate().unwrap();
    let plain = parameters();
    let mut named = parameters();
    named.subject_alt_names = vec![
        SanType::DnsName("*.b.example".try_into().unwrap()),
        SanType::IpAddress("192.0.2.1".parse().unwrap()),
        SanType::IpAddress("2001:db8::1".parse().unwrap()),
        SanType::Rfc822Name("a@b.example".try_into().unwrap()),
        SanType::URI("https://a.example/".try_into().unwrap()),
        SanType::OtherName((vec![1, 2, 3, 4], "other".into())),
    ];
    named.distinguished_name = DistinguishedName::new();
    for (kind, text) in [
        (DnType::CommonName, "é \u{202e}\u{85}"),
        (DnType::OrganizationName, " #\"+,;<>\\ "),
        (DnType::CustomDnType(vec![1, 2, 840, 113_549]), "x"),
    ] {
        named.distinguished_name.push(kind, text);
    }
    let mut authority = parameters();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(3));
    authority.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName("example".to_owned())],
        excluded_subtrees: vec![GeneralSubtree::DnsName("x.example".to_owned())],
    });
    // Two timestamps (RFC 6962 3.3) in an octet string.
    let timestamp = [&[0, 47, 0][..], &[7; 32], &[0; 10], &[4, 3, 0, 0]].concat();
    let list = [&[4, 100, 0, 98][..], &timestamp, &timestamp].concat();
    let id = [1, 3, 6, 1, 4, 1, 11129, 2, 4, 2];
    authority.custom_extensions = vec![CustomExtension::from_oid_content(&id, list)];
    let all = [plain, named, authority].map(|of| of.self_signed(&key).unwrap());
    let pem = all[0].pem().into_bytes();
    let mut samples: Vec<Vec<u8>> = all.iter().map(|made| made.der().to_vec()).collect();
    samples.push(pem);
    samples
}

#[test]
fn no_certificate_harms() {
    let set = std::env::var("FIRSTFLIGHT_FUZZ_SECONDS").ok();
    let seconds = set.and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let samples = samples();
    samples
        .iter()
        .for_each(|sample| target::certificate(sample));
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut numbers, mut rounds) = (Numbers(5), 0u64);
    while rounds < 1000 || Instant::now() < end {
        let mut input = samples[numbers.next(samples.len())].clone();
        numbers.damage(&mut input);
        let outcome = catch_unwind(|| target::certificate(&input));
        assert!(outcome.is_ok(), "it panicked on {}", input.escape_ascii());
        rounds += 1;
    }
    println!("{rounds} inputs");
}

#[test]
#[ignore = "writes the seeds of cargo-fuzz"]
fn seeds() {
    let folder = std::env::var_os("FIRSTFLIGHT_FUZZ_SEEDS");
    let folder = std::path::PathBuf::from(folder.expect("FIRSTFLIGHT_FUZZ_SEEDS names a folder"));
    fs::create_dir_all(&folder).expect("the folder can be made");
    for (n, sample) in samples().iter().enumerate() {
        fs::write(folder.join(format!("{n:04}")), sample).expect("a seed can be written");
    }
}
