//! The payload of a SETTINGS frame (RFC 9114 7.2.4).

use std::collections::BTreeSet;

use super::{Http3Error, code};
use crate::Reader;

/// Identifiers of settings.
pub mod setting {
    pub const QPACK_MAX_TABLE_CAPACITY: u64 = 0x01;
    pub const MAX_FIELD_SECTION_SIZE: u64 = 0x06;
    pub const QPACK_BLOCKED_STREAMS: u64 = 0x07;
}

/// Settings of HTTP/2 that are reserved in HTTP/3 (7.2.4.1, 11.2.2).
const OF_HTTP2: std::ops::RangeInclusive<u64> = 0x02..=0x05;

/// Returns `(id, value)` of each setting in wire order, known or unknown.
pub fn read_settings(payload: &[u8]) -> Result<Vec<(u64, u64)>, Http3Error> {
    let mut r = Reader::new(payload);
    let mut settings = Vec::new();
    let mut ids = BTreeSet::new();
    while !r.is_empty() {
        let (Ok(id), Ok(value)) = (r.varint(), r.varint()) else {
            return Err(Http3Error::new(code::FRAME_ERROR, "SETTINGS frame is cut"));
        };
        if OF_HTTP2.contains(&id) {
            return Err(Http3Error::new(
                code::SETTINGS_ERROR,
                "setting of HTTP/2 in SETTINGS",
            ));
        }
        if !ids.insert(id) {
            return Err(Http3Error::new(
                code::SETTINGS_ERROR,
                "setting twice in SETTINGS",
            ));
        }
        settings.push((id, value));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_in_wire_order() {
        let payload = [0x06, 0x44, 0, 0x21, 9, 0x01, 0, 0x00, 1];
        let expected = vec![(6, 1024), (0x21, 9), (1, 0), (0, 1)];
        assert_eq!(read_settings(&payload), Ok(expected));
        assert_eq!(read_settings(&[]), Ok(vec![]));
    }

    #[test]
    fn settings_that_are_refused() {
        let of_http2 = (code::SETTINGS_ERROR, "setting of HTTP/2 in SETTINGS");
        let twice = (code::SETTINGS_ERROR, "setting twice in SETTINGS");
        let cut = (code::FRAME_ERROR, "SETTINGS frame is cut");
        for (payload, (code, cause)) in [
            (&[0x02, 0][..], of_http2),
            (&[0x01, 0, 0x05, 0], of_http2),
            (&[0x01, 0, 0x01, 0], twice),
            // The same identifier in a longer form.
            (&[0x33, 1, 0x06, 0, 0x40, 0x33, 1], twice),
            (&[0x06], cut),
            (&[0x06, 0x40], cut),
            (&[0x06, 0, 0xc0], cut),
        ] {
            assert_eq!(
                read_settings(payload),
                Err(Http3Error { code, cause }),
                "{payload:?}"
            );
        }
        assert!(read_settings(&[0x06, 0, 0x08, 1]).is_ok());
    }
}
