//! Any file, as a routing table.

#![no_main]

#[path = "../target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &[u8]| target::table(input));
