#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| firstflight_dissect_fuzz::padding(data));
