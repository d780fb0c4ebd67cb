//! The table of known implementations.
//!
//! An entry accepts only observed fingerprints: no name is better than a wrong one. A parameter is optional (`?`) if
//! one source has it and another does not. An entry omits a value if sources differ or if a configuration is known to
//! set it. "Capture": the captures in tests/fixtures/interop (August 2024, with key logs); tests/handshake/stacks.json
//! lists their servers. "Lab": the servers of lab/stacks, in tests/handshake/test_stacks.py.

/// An entry.
pub struct Known<'a> {
    pub name: &'a str,
    /// The parameters of the fingerprint. `?` follows an optional parameter. A parameter without a value accepts any
    /// value.
    pub parameters: &'a str,
    /// Whether the implementation permutes the parameters, or keeps them in a map. The order then does not count.
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

/// In alphabetical order.
pub const KNOWN: &[Known<'static>] = &[
    // Capture; the lab's server offers no datagrams.
    ordered(
        "aioquic",
        "00,01,02,04,05,06,07,08,09,0a=3,0b=25,0e=8,0f,11,20?",
    ),
    // Capture.
    ordered("go-x-net", "00,03=1472,04,05,06,07,08,0c,0f"),
    // Capture. The proxy has a separate transport implementation.
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
    // Capture. This version kept the parameters in a hash map. Their order differs between connections.
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
