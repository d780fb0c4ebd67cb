//! `firstflight-handshake`: the library's program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// One thread makes connections. The thread that writes records frees them, with their TLS state.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    firstflight_handshake::main()
}
