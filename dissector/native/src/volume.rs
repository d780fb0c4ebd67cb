//! Throughput, for QUIC and TCP by the same rules (docs/definitions.md, "From a capture").

/// Bits per second of `bytes` in `ns` nanoseconds, floored; `None` if no time passed.
pub fn bits_per_second(bytes: u64, ns: i64) -> Option<i64> {
    if ns <= 0 {
        return None;
    }
    i64::try_from(u128::from(bytes) * 8_000_000_000 / ns.unsigned_abs() as u128).ok()
}
