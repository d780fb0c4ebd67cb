//! The table of known implementations.
//!
//! An entry is as narrow as what was observed: no name is better than a wrong one. A parameter that one source
//! has and another has not is optional (`?`), and so is its value where sources differ or a configuration is
//! known to set it. Captures: tests/fixtures/interop (August 2024, key logs beside them), whose servers are
//! those of tests/handshake/stacks.json. Lab: the servers of lab/stacks, by tests/handshake/test_stacks.py.

/// An entry.
pub struct Known<'a> {
    pub name: &'a str,
    /// What the fingerprint must be: its parameters, with `?` behind those that may be absent; a parameter
    /// without a value may have any.
    pub parameters: &'a str,
    /// Whether the implementation, or its map, permutes the parameters: only the set counts then.
    pub any_order: bool,
}

const fn ordered(name: &'static str, parameters: &'static str) -> Known<'static> {
    Known {
        name,
        parameters,
        any_order: false,
    }
}

const fn permuted(name: &'static str, parameters: &'static str) -> Known<'static> {
    Known {
        name,
        parameters,
        any_order: true,
    }
}

/// By name.
pub const KNOWN: &[Known<'static>] = &[
    // Capture; the lab's server offers no datagrams.
    ordered(
        "aioquic",
        "00,01,02,04,05,06,07,08,09,0a=3,0b=25,0e=8,0f,11,20?",
    ),
    // Capture.
    ordered("go-x-net", "00,03=1472,04,05,06,07,08,0c,0f"),
    // Capture. The proxy has a transport of its own.
    ordered("haproxy", "00,02,0f,01,03,04,05,06,07,08,09,0c,0e=8,11"),
    // Capture.
    ordered(
        "kwik",
        "00,01,03=1500,04,05,06,07,08,09,0a=3,0b=25,0c,0e=3,0f,11",
    ),
    // Capture.
    ordered(
        "lsquic",
        "01,04,06,07,08,09,0e=8,de1a=10000,ff02de1a=10000,7158,1057,00,0f,02",
    ),
    // Capture.
    ordered(
        "msquic",
        "00,01,02,03,04,05,06,07,08,09,0a=8,0b=26,0e=4,0f,ff03de1a=1000,2ab2",
    ),
    // Capture.
    ordered(
        "mvfst",
        "00,05,06,07,04,08,09,01,0a=3,03=1500,02,0c,0f,20,ff0a001,5178",
    ),
    // Capture. It kept them in a hash map then, whose order differs from connection to connection.
    permuted(
        "neqo",
        "00,01,04,05,06,07,08,09,0b=20,0c,0e=8,0f,11,20,2ab2,ff02de1a=1000",
    ),
    // Capture. The size of datagrams is a setting (quic_mtu).
    ordered("nginx", "04,09,08,05,06,07,01,03,0e=2,0b=25,0a=3,00,0f,02"),
    // Capture.
    ordered("ngtcp2", "00,02,0f,06,07,04,08,01,0e=7,2ab2,11"),
    // Capture.
    ordered("picoquic", "05,04,08,01,03,09,06,07,0e=8,0b=10,0f,00,02"),
    // Capture and lab, whose server permits migration.
    ordered(
        "quic-go",
        "g,05,06,07,04,08,09,01,03=1452,0b=26,0c?,02,00,0e=4,0f",
    ),
    // Capture and lab, whose server permits migration, opens no streams, and takes datagrams of any size.
    ordered("quiche", "00,01,03,04,05?,06,07,08,09,0a=3,0b=25,0c?,0f"),
    // Capture, in order; versions since then permute.
    permuted(
        "quinn",
        "00,01,02,03=1472,04,05,06,07,08,09,0e=5,0f,20,2ab2,ff04de1a=1000,g",
    ),
    // quinn-proto 0.11.19 in the tests of the connection: another code point of min_ack_delay, and permuted.
    permuted(
        "quinn",
        "00,01,02,03=1472,04,05,06,07,08,09,0e=5,0f,20,2ab2,ff04de1b=1000,g",
    ),
    // Capture.
    ordered("s2n-quic", "01,04,05,06,07,08,09,0e=3,00,0f"),
    // Capture.
    ordered(
        "xquic",
        "00,01,02,03=1500,04,05,06,07,08,09,0e=8,0f,f739bbc1b666d04",
    ),
];
