//! Transport parameters (RFC 9000 18), in the order sent.

mod fingerprint;
mod json;
mod versions;

use crate::{ConnectionId, Error, Reader, Writer};
pub use versions::{VersionInformation, write_version_information};

/// Identifiers of transport parameters.
pub mod id {
    pub const ORIGINAL_DESTINATION_CONNECTION_ID: u64 = 0x00;
    pub const MAX_IDLE_TIMEOUT: u64 = 0x01;
    pub const STATELESS_RESET_TOKEN: u64 = 0x02;
    pub const MAX_UDP_PAYLOAD_SIZE: u64 = 0x03;
    pub const INITIAL_MAX_DATA: u64 = 0x04;
    pub const INITIAL_MAX_STREAM_DATA_BIDI_LOCAL: u64 = 0x05;
    pub const INITIAL_MAX_STREAM_DATA_BIDI_REMOTE: u64 = 0x06;
    pub const INITIAL_MAX_STREAM_DATA_UNI: u64 = 0x07;
    pub const INITIAL_MAX_STREAMS_BIDI: u64 = 0x08;
    pub const INITIAL_MAX_STREAMS_UNI: u64 = 0x09;
    pub const ACK_DELAY_EXPONENT: u64 = 0x0a;
    pub const MAX_ACK_DELAY: u64 = 0x0b;
    pub const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;
    pub const PREFERRED_ADDRESS: u64 = 0x0d;
    pub const ACTIVE_CONNECTION_ID_LIMIT: u64 = 0x0e;
    pub const INITIAL_SOURCE_CONNECTION_ID: u64 = 0x0f;
    pub const RETRY_SOURCE_CONNECTION_ID: u64 = 0x10;
    pub const VERSION_INFORMATION: u64 = 0x11;
    pub const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
    pub const GREASE_QUIC_BIT: u64 = 0x2ab2;
    /// Code points of min_ack_delay in draft-ietf-quic-ack-frequency and its predecessors, newest first.
    pub const MIN_ACK_DELAY: [u64; 5] =
        [0xff04_de1b, 0xff04_de1a, 0xff03_de1a, 0xff02_de1a, 0xde1a];
    /// initial_max_path_id (RFC 10069), and the code points of its drafts, which count up from -04
    /// (enable_multipath).
    pub const INITIAL_MAX_PATH_ID: u64 = 0x3e;
    pub const MULTIPATH_OF_DRAFTS: std::ops::RangeInclusive<u64> =
        0x0f73_9bbc_1b66_6d04..=0x0f73_9bbc_1b66_6d1f;
}

/// The type of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    Integer,
    /// The presence of the parameter is the value.
    Flag,
    Bytes,
}

/// Returns a parameter's name and value type (RFC 9000 18.2 and extensions); `None` for an unknown parameter.
pub fn describe(parameter: u64) -> Option<(&'static str, ValueKind)> {
    use ValueKind::{Bytes, Flag, Integer};
    Some(match parameter {
        id::ORIGINAL_DESTINATION_CONNECTION_ID => ("original_destination_connection_id", Bytes),
        id::MAX_IDLE_TIMEOUT => ("max_idle_timeout", Integer),
        id::STATELESS_RESET_TOKEN => ("stateless_reset_token", Bytes),
        id::MAX_UDP_PAYLOAD_SIZE => ("max_udp_payload_size", Integer),
        id::INITIAL_MAX_DATA => ("initial_max_data", Integer),
        id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => ("initial_max_stream_data_bidi_local", Integer),
        id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => ("initial_max_stream_data_bidi_remote", Integer),
        id::INITIAL_MAX_STREAM_DATA_UNI => ("initial_max_stream_data_uni", Integer),
        id::INITIAL_MAX_STREAMS_BIDI => ("initial_max_streams_bidi", Integer),
        id::INITIAL_MAX_STREAMS_UNI => ("initial_max_streams_uni", Integer),
        id::ACK_DELAY_EXPONENT => ("ack_delay_exponent", Integer),
        id::MAX_ACK_DELAY => ("max_ack_delay", Integer),
        id::DISABLE_ACTIVE_MIGRATION => ("disable_active_migration", Flag),
        id::PREFERRED_ADDRESS => ("preferred_address", Bytes),
        id::ACTIVE_CONNECTION_ID_LIMIT => ("active_connection_id_limit", Integer),
        id::INITIAL_SOURCE_CONNECTION_ID => ("initial_source_connection_id", Bytes),
        id::RETRY_SOURCE_CONNECTION_ID => ("retry_source_connection_id", Bytes),
        id::VERSION_INFORMATION => ("version_information", Bytes),
        id::MAX_DATAGRAM_FRAME_SIZE => ("max_datagram_frame_size", Integer),
        id::GREASE_QUIC_BIT => ("grease_quic_bit", Flag),
        id::INITIAL_MAX_PATH_ID => ("initial_max_path_id", Integer),
        other if id::MIN_ACK_DELAY.contains(&other) => ("min_ack_delay", Integer),
        other if is_reserved(other) => ("grease", Bytes),
        _ => return None,
    })
}

/// Returns whether a parameter is reserved to be ignored (RFC 9000 18.1). One code point of min_ack_delay has the
/// form of a reserved parameter, but is not reserved.
fn is_reserved(parameter: u64) -> bool {
    let of_their_form = parameter >= 27 && (parameter - 27).is_multiple_of(31);
    of_their_form && !id::MIN_ACK_DELAY.contains(&parameter)
}

/// An endpoint's parameters. Iterates over `(id, value)` in the order sent, and stops after an error.
#[derive(Clone, Copy, Debug)]
pub struct TransportParameters<'a> {
    rest: Reader<'a>,
}

impl<'a> TransportParameters<'a> {
    /// Returns the parameters in the body of the TLS extension.
    pub fn new(extension: &'a [u8]) -> Self {
        TransportParameters {
            rest: Reader::new(extension),
        }
    }

    /// Returns the value of the first parameter `id`, or `None`. Fails if the parameters before it are malformed.
    pub fn find(mut self, id: u64) -> Result<Option<&'a [u8]>, Error> {
        self.try_fold(None, |found, parameter| {
            let (this, value) = parameter?;
            Ok(found.or((this == id).then_some(value)))
        })
    }

    /// Returns the value of an integer parameter, or `None` if it is absent.
    pub fn integer(self, id: u64) -> Result<Option<u64>, Error> {
        let Some(value) = self.find(id)? else {
            return Ok(None);
        };
        let mut r = Reader::new(value);
        let number = r.varint()?;
        if r.is_empty() {
            Ok(Some(number))
        } else {
            Err(Error::Malformed("transport parameter value"))
        }
    }

    /// Returns the code point and value (µs) of min_ack_delay, or `None` if it is absent. Prefers the newest code
    /// point, and the first of repeated parameters.
    pub fn min_ack_delay(self) -> Option<(u64, u64)> {
        let mut found = [None; id::MIN_ACK_DELAY.len()];
        for parameter in self {
            let (this, value) = parameter.ok()?;
            if let Some(place) = id::MIN_ACK_DELAY.iter().position(|id| *id == this) {
                let mut r = Reader::new(value);
                let number = r.varint().ok().filter(|_| r.is_empty());
                found[place].get_or_insert((this, number));
            }
        }
        let sent = found.into_iter().flatten();
        sent.filter_map(|(id, number)| Some((id, number?))).next()
    }

    /// Returns the code point and value of the first parameter that enables multipath, or `None` if it is absent.
    /// The value is `None` if it is not an integer.
    pub fn multipath(mut self) -> Option<(u64, Option<u64>)> {
        let (id, value) = self.find_map(|parameter| {
            parameter.ok().filter(|(this, _)| {
                *this == id::INITIAL_MAX_PATH_ID || id::MULTIPATH_OF_DRAFTS.contains(this)
            })
        })?;
        let mut r = Reader::new(value);
        Some((id, r.varint().ok().filter(|_| r.is_empty())))
    }

    /// Returns the bytes of the extension that are not iterated over yet.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.rest.rest()
    }

    /// Returns the connection ID in preferred_address, or `None` if the parameter is absent (RFC 9000 18.2).
    pub fn preferred_address_cid(self) -> Result<Option<ConnectionId>, Error> {
        let Some(value) = self.find(id::PREFERRED_ADDRESS)? else {
            return Ok(None);
        };
        let mut r = Reader::new(value);
        // Address and port for IPv4 and IPv6.
        r.bytes(4 + 2 + 16 + 2)?;
        ConnectionId::new(r.vec8()?).map(Some)
    }

    /// Returns the value of a connection ID parameter, or `None` if it is absent.
    pub fn connection_id(self, id: u64) -> Result<Option<ConnectionId>, Error> {
        self.find(id)?.map(ConnectionId::new).transpose()
    }
}

impl<'a> Iterator for TransportParameters<'a> {
    type Item = Result<(u64, &'a [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let mut read = || Ok((self.rest.varint()?, self.rest.varint_bytes()?));
        let parameter = read();
        if parameter.is_err() {
            self.rest = Reader::new(&[]);
        }
        Some(parameter)
    }
}

/// Writes a parameter.
pub fn write_parameter(w: &mut Writer<'_>, id: u64, value: &[u8]) -> Result<(), Error> {
    w.varint(id)?;
    w.varint_bytes(value)
}

/// Writes a parameter with an integer value.
pub fn write_integer_parameter(w: &mut Writer<'_>, id: u64, value: u64) -> Result<(), Error> {
    w.varint(id)?;
    w.varint(crate::buf::varint_len(value).ok_or(Error::NoRoom)? as u64)?;
    w.varint(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipath_is_found_by_every_code_point() {
        for (id, value, expected) in [
            (0x3e, &[4][..], Some((0x3e, Some(4)))),
            (
                0x0f73_9bbc_1b66_6d0d,
                &[2],
                Some((0x0f73_9bbc_1b66_6d0d, Some(2))),
            ),
            (
                0x0f73_9bbc_1b66_6d05,
                &[],
                Some((0x0f73_9bbc_1b66_6d05, None)),
            ),
            (0x0f73_9bbc_1b66_6d03, &[2], None),
        ] {
            let mut out = [0; 64];
            let mut w = Writer::new(&mut out);
            write_integer_parameter(&mut w, id::INITIAL_MAX_DATA, 1).unwrap();
            write_parameter(&mut w, id, value).unwrap();
            assert_eq!(TransportParameters::new(w.written()).multipath(), expected);
        }
    }

    #[test]
    fn round_trip_keeps_order() {
        let mut out = [0; 64];
        let mut w = Writer::new(&mut out);
        write_integer_parameter(&mut w, id::INITIAL_MAX_DATA, 1 << 20).unwrap();
        write_parameter(&mut w, id::DISABLE_ACTIVE_MIGRATION, &[]).unwrap();
        write_parameter(&mut w, id::INITIAL_SOURCE_CONNECTION_ID, &[7; 8]).unwrap();
        let n = w.position();
        let parameters = TransportParameters::new(&out[..n]);
        let ids: Vec<_> = parameters.map(|p| p.unwrap().0).collect();
        assert_eq!(ids, [0x04, 0x0c, 0x0f]);
        assert_eq!(parameters.integer(id::INITIAL_MAX_DATA), Ok(Some(1 << 20)));
        assert_eq!(parameters.integer(id::MAX_IDLE_TIMEOUT), Ok(None));
        assert_eq!(parameters.connection_id(0x0f), Ok(Some([7; 8].into())));
        assert_eq!(
            TransportParameters::new(&out[..n - 1]).find(0x0f),
            Err(Error::Truncated)
        );
    }
}
