//! Any bytes, as a certificate, as a chain and as roots.

#![no_main]

#[path = "../target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &[u8]| target::certificate(input));
