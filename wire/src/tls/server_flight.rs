//! Reads the server's messages under Handshake keys (RFC 8446 4.3.1, 4.4.2; RFC 8879).

use super::{each_extension, number};
use crate::transport::TransportParameters;
use crate::{Error, Reader};

/// The parts of EncryptedExtensions that are used.
#[derive(Clone, Debug)]
pub struct EncryptedExtensions<'a> {
    /// The application protocol that the server chose.
    pub alpn: Option<&'a [u8]>,
    pub transport_parameters: Option<TransportParameters<'a>>,
    /// An ECHConfigList. The server rejected the client's ECH, and provides these configurations for a retry.
    pub ech_retry_configs: Option<&'a [u8]>,
}

impl<'a> EncryptedExtensions<'a> {
    /// Parses the body of the message (the result of [`super::read_message`]).
    pub fn parse(body: &'a [u8]) -> Result<EncryptedExtensions<'a>, Error> {
        let mut found = EncryptedExtensions {
            alpn: None,
            transport_parameters: None,
            ech_retry_configs: None,
        };
        each_extension(&mut Reader::new(body), |kind, data| {
            match kind {
                number::ALPN => {
                    found.alpn = Some(Reader::new(Reader::new(data).vec16()?).vec8()?);
                }
                number::QUIC_TRANSPORT_PARAMETERS | number::QUIC_TRANSPORT_PARAMETERS_DRAFT => {
                    found.transport_parameters = Some(TransportParameters::new(data));
                }
                number::ENCRYPTED_CLIENT_HELLO => found.ech_retry_configs = Some(data),
                _ => {}
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// Returns the total size of the certificates in a Certificate message's body, without lengths and extensions.
pub fn certificate_chain_bytes(body: &[u8]) -> Result<u64, Error> {
    let mut r = Reader::new(body);
    r.vec8()?;
    let length = r.u24()? as usize;
    let mut list = Reader::new(r.bytes(length)?);
    let mut sum = 0;
    while !list.is_empty() {
        let length = list.u24()? as usize;
        sum += list.bytes(length)?.len() as u64;
        list.vec16()?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::id;

    #[test]
    fn encrypted_extensions_give_alpn_and_parameters() {
        // ALPN h3; transport parameters with max_idle_timeout 30; an unknown extension.
        let body = [
            0, 21, 0, 16, 0, 5, 0, 3, 2, b'h', b'3', 0, 57, 0, 3, 1, 1, 30, 0xaa, 0xaa, 0, 1, 9,
        ];
        let found = EncryptedExtensions::parse(&body).unwrap();
        assert_eq!(found.alpn, Some(&b"h3"[..]));
        let parameters = found.transport_parameters.unwrap();
        assert_eq!(parameters.integer(id::MAX_IDLE_TIMEOUT), Ok(Some(30)));
        for cut in 0..body.len() {
            assert!(EncryptedExtensions::parse(&body[..cut]).is_err());
        }
    }

    #[test]
    fn certificates_are_summed() {
        let mut body = vec![0, 0, 0, 17];
        body.extend([0, 0, 4, 1, 2, 3, 4, 0, 0]);
        body.extend([0, 0, 2, 1, 2, 0, 1, 7]);
        assert_eq!(certificate_chain_bytes(&body), Ok(6));
        assert_eq!(certificate_chain_bytes(&[0, 0, 0, 0]), Ok(0));
        assert_eq!(certificate_chain_bytes(&body[..12]), Err(Error::Truncated));
    }
}
