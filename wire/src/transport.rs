//! Transport parameters (RFC 9000 18), in the order sent.

use crate::{ConnectionId, Error, Reader, Writer};

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
}

/// The parameters of one endpoint; iterate for `(id, value)` in the order sent. The iteration ends after an error.
#[derive(Clone, Copy, Debug)]
pub struct TransportParameters<'a> {
    rest: Reader<'a>,
}

impl<'a> TransportParameters<'a> {
    /// Parameters in the body of the TLS extension.
    pub fn new(extension: &'a [u8]) -> Self {
        TransportParameters {
            rest: Reader::new(extension),
        }
    }

    /// The value of the first parameter `id`, or `None`. Fails if what is before it does not parse.
    pub fn find(mut self, id: u64) -> Result<Option<&'a [u8]>, Error> {
        self.try_fold(None, |found, parameter| {
            let (this, value) = parameter?;
            Ok(found.or((this == id).then_some(value)))
        })
    }

    /// The value of an integer parameter, or `None` if it was not sent.
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

    /// The value of a connection ID parameter, or `None` if it was not sent.
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
        let mut one = || Ok((self.rest.varint()?, self.rest.varint_bytes()?));
        let parameter = one();
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

/// Writes a parameter whose value is an integer.
pub fn write_integer_parameter(w: &mut Writer<'_>, id: u64, value: u64) -> Result<(), Error> {
    w.varint(id)?;
    w.varint(crate::buf::varint_len(value).ok_or(Error::NoRoom)? as u64)?;
    w.varint(value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
