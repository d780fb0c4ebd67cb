//! The fuzz target: reads a file as a routing table, plain or compressed.

use std::io::Cursor;
use std::path::Path;

use firstflight_rib::table::Table;

/// A record's minimum size: the header (RFC 6396 2).
const HEADER_BYTES: usize = 12;

/// Reads `input` as a whole table. Returns whether it is a valid table. Asserts that each record in a valid table has
/// an origin or is counted, and that a plain table has no more records than its size allows.
pub fn table(input: &[u8]) -> bool {
    let mut table = Table::default();
    let stream = Box::new(Cursor::new(input.to_vec()));
    if let Err(failure) = table.read_from(stream, Path::new("table\n")) {
        assert_eq!(failure.exit_status(), 3);
        assert!(!failure.to_string().contains(char::is_control));
        return false;
    }
    let summary = table.summary();
    let count = |name: &str| summary["counts"][name].as_u64().unwrap_or(0);
    let without = ["default_routes", "repeated", "no_origin"];
    let origins = table.origins.len() as u64;
    assert_eq!(
        count("records"),
        origins + without.iter().map(|name| count(name)).sum::<u64>()
    );
    assert!(count("as_sets") <= origins);
    let is_compressed = input.starts_with(b"BZh") || input.starts_with(&[0x1f, 0x8b]);
    assert!(is_compressed || count("records") <= (input.len() / HEADER_BYTES) as u64);
    for ((address, bits), origin) in &table.origins {
        let most = if address.is_ipv4() { 32 } else { 128 };
        assert!(*bits <= most && *origin != 0);
    }
    true
}
