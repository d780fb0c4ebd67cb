//! Reads and writes ServerHello and HelloRetryRequest (RFC 8446 4.1.3, 4.1.4).

use std::ops::RangeInclusive;

use super::{each_extension, number};
use crate::{Error, Reader, Writer};

/// A HelloRetryRequest's random: SHA-256 of "HelloRetryRequest".
const HELLO_RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// The type of a server's first handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloKind {
    ServerHello,
    HelloRetryRequest,
}

/// Possible body lengths of a TLS 1.3 ServerHello (RFC 8446 4.1.3): version, random, a session ID of up to 32
/// bytes, cipher suite, compression, and at least six bytes of extensions (supported_versions).
const BODY_BYTES: RangeInclusive<u32> = 46..=(2 + 32 + 33 + 3 + 2 + 0xffff);

/// Distinguishes ServerHello and HelloRetryRequest by the first 38 bytes of the message, including the header.
/// Returns [`Error::Truncated`] for fewer bytes, and [`Error::Malformed`] for another message or an impossible
/// length.
pub fn hello_kind(message: &[u8]) -> Result<HelloKind, Error> {
    let mut r = Reader::new(message);
    if r.u8()? != number::SERVER_HELLO {
        return Err(Error::Malformed("ServerHello type"));
    }
    if !BODY_BYTES.contains(&r.u24()?) {
        return Err(Error::Malformed("ServerHello length"));
    }
    r.u16()?;
    Ok(if r.array::<32>()? == HELLO_RETRY_RANDOM {
        HelloKind::HelloRetryRequest
    } else {
        HelloKind::ServerHello
    })
}

/// A ServerHello or HelloRetryRequest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerHello {
    pub kind: HelloKind,
    pub random: [u8; 32],
    pub cipher_suite: u16,
    /// Group of the server's key share, or the group that a HelloRetryRequest selects.
    pub group: Option<u16>,
    /// supported_versions: 0x0304 for TLS 1.3.
    pub version: Option<u16>,
}

impl ServerHello {
    /// Parses a ServerHello message's body.
    pub fn parse(body: &[u8]) -> Result<ServerHello, Error> {
        let mut r = Reader::new(body);
        r.u16()?;
        let random = r.array()?;
        r.vec8()?;
        let kind = if random == HELLO_RETRY_RANDOM {
            HelloKind::HelloRetryRequest
        } else {
            HelloKind::ServerHello
        };
        let mut hello = ServerHello {
            kind,
            random,
            cipher_suite: r.u16()?,
            group: None,
            version: None,
        };
        r.u8()?;
        each_extension(&mut r, |kind, data| {
            let mut data = Reader::new(data);
            match kind {
                number::KEY_SHARE => hello.group = Some(data.u16()?),
                number::SUPPORTED_VERSIONS => hello.version = Some(data.u16()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(hello)
    }
}

fn write_hello(
    w: &mut Writer<'_>,
    random: &[u8; 32],
    session_id: &[u8],
    cipher_suite: u16,
    key_share: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    w.message(number::SERVER_HELLO, |w| {
        w.u16(0x0303)?;
        w.bytes(random)?;
        w.vec8(session_id)?;
        w.u16(cipher_suite)?;
        w.u8(0)?;
        w.vec16(|w| {
            w.u16(number::SUPPORTED_VERSIONS)?;
            w.vec16(|w| w.u16(0x0304))?;
            w.u16(number::KEY_SHARE)?;
            w.vec16(key_share)
        })
    })
}

/// Writes a ServerHello message with header. `session_id` repeats the ClientHello's (empty in QUIC).
pub fn write_server_hello(
    w: &mut Writer<'_>,
    random: &[u8; 32],
    session_id: &[u8],
    cipher_suite: u16,
    group: u16,
    key_share: &[u8],
) -> Result<(), Error> {
    write_hello(w, random, session_id, cipher_suite, |w| {
        w.u16(group)?;
        w.vec16(|w| w.bytes(key_share))
    })
}

/// Writes a HelloRetryRequest message with header. It selects `group`.
pub fn write_hello_retry_request(
    w: &mut Writer<'_>,
    session_id: &[u8],
    cipher_suite: u16,
    group: u16,
) -> Result<(), Error> {
    write_hello(w, &HELLO_RETRY_RANDOM, session_id, cipher_suite, |w| {
        w.u16(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::read_message;

    #[test]
    fn server_hello_round_trip() {
        let mut out = [0; 256];
        let mut w = Writer::new(&mut out);
        write_server_hello(
            &mut w,
            &[9; 32],
            &[],
            number::TLS_AES_128_GCM_SHA256,
            number::X25519,
            &[5; 32],
        )
        .unwrap();
        let n = w.position();
        assert_eq!(hello_kind(&out[..n]), Ok(HelloKind::ServerHello));
        assert_eq!(hello_kind(&out[..37]), Err(Error::Truncated));
        let (kind, body) = read_message(&mut Reader::new(&out[..n])).unwrap();
        assert_eq!(kind, number::SERVER_HELLO);
        let hello = ServerHello::parse(body).unwrap();
        assert_eq!(
            (hello.cipher_suite, hello.group, hello.version),
            (0x1301, Some(0x1d), Some(0x0304))
        );
        assert_eq!(
            read_message(&mut Reader::new(&out[..n - 1])),
            Err(Error::Truncated)
        );
    }

    #[test]
    fn no_message_of_another_length_is_a_server_hello() {
        let mut message = [7; 38];
        message[0] = number::SERVER_HELLO;
        for (length, expected) in [
            (0, Err(Error::Malformed("ServerHello length"))),
            (1, Err(Error::Malformed("ServerHello length"))),
            (45, Err(Error::Malformed("ServerHello length"))),
            (46, Ok(HelloKind::ServerHello)),
            (65_607, Ok(HelloKind::ServerHello)),
            (65_608, Err(Error::Malformed("ServerHello length"))),
            (0xff_ffff, Err(Error::Malformed("ServerHello length"))),
        ] {
            message[1..4].copy_from_slice(&u32::to_be_bytes(length)[1..]);
            assert_eq!(hello_kind(&message), expected, "{length}");
        }
    }

    #[test]
    fn hello_retry_request_is_told_by_its_random() {
        let mut out = [0; 128];
        let mut w = Writer::new(&mut out);
        write_hello_retry_request(
            &mut w,
            &[],
            number::TLS_AES_128_GCM_SHA256,
            number::SECP256R1,
        )
        .unwrap();
        let n = w.position();
        assert_eq!(hello_kind(&out[..n]), Ok(HelloKind::HelloRetryRequest));
        let (_, body) = read_message(&mut Reader::new(&out[..n])).unwrap();
        assert_eq!(
            ServerHello::parse(body).unwrap().group,
            Some(number::SECP256R1)
        );
    }
}
