//! Reads any message as the answer to any question.

#![no_main]

#[path = "../target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|input: &[u8]| target::answer(input));
