//! The testbed's server for s2n-quic.

use std::process::ExitCode;

fn main() -> ExitCode {
    firstflight_testbed_servers::s2n::main()
}
