//! `firstflight-quic-download`: the library's program, without an observer of connections.

use firstflight_quic_download::observer::Nothing;

fn main() {
    firstflight_quic_download::main(
        "firstflight-quic-download",
        env!("CARGO_PKG_VERSION"),
        env!("BUILT_WITH_QUICHE"),
        &mut Nothing,
    );
}
