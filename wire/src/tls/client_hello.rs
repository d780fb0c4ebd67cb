//! Reads a ClientHello (RFC 8446 4.1.2).

use super::{each_extension, number};
use crate::transport::TransportParameters;
use crate::{Error, Reader};

/// A ClientHello's contents. Absent extensions are `None` or empty.
#[derive(Clone, Debug)]
pub struct ClientHello<'a> {
    pub random: [u8; 32],
    pub session_id: &'a [u8],
    /// Host name in server_name, as sent.
    pub sni: Option<&'a [u8]>,
    alpn: &'a [u8],
    groups: &'a [u8],
    key_shares: &'a [u8],
    pub transport_parameters: Option<TransportParameters<'a>>,
}

impl<'a> ClientHello<'a> {
    /// Parses a ClientHello message's body (the result of [`super::read_message`]).
    pub fn parse(body: &'a [u8]) -> Result<ClientHello<'a>, Error> {
        let mut r = Reader::new(body);
        r.u16()?;
        let mut hello = ClientHello {
            random: r.array()?,
            session_id: r.vec8()?,
            sni: None,
            alpn: &[],
            groups: &[],
            key_shares: &[],
            transport_parameters: None,
        };
        r.vec16()?;
        r.vec8()?;
        each_extension(&mut r, |kind, data| {
            let mut data_reader = Reader::new(data);
            match kind {
                number::SERVER_NAME => {
                    let mut list = Reader::new(data_reader.vec16()?);
                    // host_name is the only defined type.
                    if list.u8()? == 0 {
                        hello.sni = Some(list.vec16()?);
                    }
                }
                number::ALPN => hello.alpn = data_reader.vec16()?,
                number::SUPPORTED_GROUPS => hello.groups = data_reader.vec16()?,
                number::KEY_SHARE => hello.key_shares = data_reader.vec16()?,
                number::QUIC_TRANSPORT_PARAMETERS | number::QUIC_TRANSPORT_PARAMETERS_DRAFT => {
                    hello.transport_parameters = Some(TransportParameters::new(data));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(hello)
    }

    /// Returns the application protocols in order of preference. A malformed list stops early.
    pub fn alpn(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut list = Reader::new(self.alpn);
        std::iter::from_fn(move || list.vec8().ok())
    }

    /// Returns supported_groups in order of preference.
    pub fn supported_groups(&self) -> impl Iterator<Item = u16> {
        self.groups
            .as_chunks::<2>()
            .0
            .iter()
            .map(|g| u16::from_be_bytes(*g))
    }

    /// Returns the groups with a key share, and the share. A malformed list stops early.
    pub fn key_shares(&self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut list = Reader::new(self.key_shares);
        std::iter::from_fn(move || Some((list.u16().ok()?, list.vec16().ok()?)))
    }
}
