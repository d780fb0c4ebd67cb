//! The lab's quiche server.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    firstflight_edge::main("firstflight-edge")
}
