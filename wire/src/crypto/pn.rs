//! Packet numbers (RFC 9000 17.1, A.3).

/// Decodes the packet number `truncated`, sent in `bytes` (1 to 4) bytes. `largest` is the largest packet number
/// already processed in this packet number space. With `None`, the full number is expected to be small.
pub fn decode_packet_number(largest: Option<u64>, truncated: u32, bytes: usize) -> u64 {
    let expected = largest.map_or(0, |n| n.saturating_add(1));
    let window = 1u64 << (8 * bytes.clamp(1, 4));
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | u64::from(truncated);
    if candidate + half <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::decode_packet_number as decode;

    #[test]
    fn example_of_rfc_9000_a3() {
        assert_eq!(decode(Some(0xa82f_30ea), 0x9b32, 2), 0xa82f_9b32);
    }

    #[test]
    fn servers_may_start_anywhere() {
        assert_eq!(decode(None, 0, 1), 0);
        assert_eq!(decode(None, 200, 1), 200);
        assert_eq!(decode(None, 0xffff_ffff, 4), 0xffff_ffff);
        assert_eq!(decode(Some(255), 0, 1), 256);
        assert_eq!(decode(Some(256), 255, 1), 255);
    }
}
