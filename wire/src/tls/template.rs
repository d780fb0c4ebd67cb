//! A ClientHello that is the same for all probes except for random, key share, name and connection ID.

use super::number::{self, *};
use crate::transport::{id, write_integer_parameter, write_parameter};
use crate::{ConnectionId, Error, Writer};

/// Parameters that may differ between measurements, but not between a measurement's probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateOptions {
    /// Application protocols in order of preference.
    pub alpn: Vec<Vec<u8>>,
    /// supported_groups, in order of preference. The only key share is for x25519.
    pub groups: Vec<u16>,
    /// max_idle_timeout in milliseconds. A short value lets servers discard the state of a probe soon.
    pub idle_timeout_ms: u64,
}

impl Default for TemplateOptions {
    /// The ClientHello of docs/definitions.md, 'The Initial'.
    fn default() -> Self {
        TemplateOptions {
            alpn: vec![b"h3".to_vec()],
            groups: vec![X25519, SECP256R1, SECP384R1, SECP521R1],
            idle_timeout_ms: 5_000,
        }
    }
}

const MAX_HELLO: usize = 512;

/// A ClientHello's constant parts, ready to be copied.
#[derive(Clone, Debug)]
pub struct ClientHelloTemplate {
    /// Cipher suites and compression methods: the part between session ID and extensions.
    offers: Vec<u8>,
    /// Extensions through the type and length of the key share's bytes.
    extensions: Vec<u8>,
    /// Transport parameters before initial_source_connection_id.
    parameters: Vec<u8>,
}

impl ClientHelloTemplate {
    /// Prepares the constant parts. Returns [`Error::NoRoom`] if `options` would not fit in a datagram.
    pub fn new(options: &TemplateOptions) -> Result<ClientHelloTemplate, Error> {
        Ok(ClientHelloTemplate {
            offers: collect(|w| {
                w.vec16(|w| {
                    [
                        TLS_AES_128_GCM_SHA256,
                        TLS_AES_256_GCM_SHA384,
                        TLS_CHACHA20_POLY1305_SHA256,
                    ]
                    .iter()
                    .try_for_each(|&suite| w.u16(suite))
                })?;
                w.vec8(&[0])
            })?,
            extensions: collect(|w| write_fixed_extensions(w, options))?,
            parameters: collect(|w| write_fixed_parameters(w, options))?,
        })
    }

    /// Writes the ClientHello message with header. With an empty `sni` (a target without a name), it has no
    /// server_name extension.
    pub fn write(
        &self,
        w: &mut Writer<'_>,
        random: &[u8; 32],
        key_share: &[u8; 32],
        sni: &str,
        scid: &ConnectionId,
    ) -> Result<(), Error> {
        w.message(number::CLIENT_HELLO, |w| {
            w.u16(0x0303)?;
            w.bytes(random)?;
            // QUIC sends no session ID (RFC 9001 8.4).
            w.u8(0)?;
            w.bytes(&self.offers)?;
            w.vec16(|w| {
                w.bytes(&self.extensions)?;
                w.bytes(key_share)?;
                w.u16(QUIC_TRANSPORT_PARAMETERS)?;
                w.vec16(|w| {
                    w.bytes(&self.parameters)?;
                    write_parameter(w, id::INITIAL_SOURCE_CONNECTION_ID, scid.as_slice())
                })?;
                if sni.is_empty() {
                    return Ok(());
                }
                w.u16(SERVER_NAME)?;
                w.vec16(|w| {
                    w.vec16(|w| {
                        w.u8(0)?;
                        w.vec16(|w| w.bytes(sni.as_bytes()))
                    })
                })
            })
        })
    }

    /// Returns the message with zeros for random and key share, without a name, and with an empty connection ID.
    /// The hash of this message identifies the template.
    pub fn canonical(&self) -> Result<Vec<u8>, Error> {
        collect(|w| self.write(w, &[0; 32], &[0; 32], "", &ConnectionId::EMPTY))
    }
}

/// Returns the output of `fill` as a vector of at most [`MAX_HELLO`] bytes.
fn collect(fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>) -> Result<Vec<u8>, Error> {
    let mut buf = [0; MAX_HELLO];
    let mut w = Writer::new(&mut buf);
    fill(&mut w)?;
    Ok(w.written().to_vec())
}

fn write_fixed_extensions(w: &mut Writer<'_>, options: &TemplateOptions) -> Result<(), Error> {
    w.u16(SUPPORTED_VERSIONS)?;
    w.vec16(|w| w.vec8(&[0x03, 0x04]))?;
    w.u16(SUPPORTED_GROUPS)?;
    w.vec16(|w| w.vec16(|w| options.groups.iter().try_for_each(|&g| w.u16(g))))?;
    w.u16(SIGNATURE_ALGORITHMS)?;
    // ECDSA on P-256 and P-384, RSA-PSS, RSA PKCS#1 (certificates only), Ed25519: the usual algorithms of web
    // servers' certificates.
    let signatures = [
        0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601, 0x0807,
    ];
    w.vec16(|w| w.vec16(|w| signatures.iter().try_for_each(|&s| w.u16(s))))?;
    w.u16(ALPN)?;
    w.vec16(|w| {
        w.vec16(|w| {
            options
                .alpn
                .iter()
                .try_for_each(|protocol| w.vec8(protocol))
        })
    })?;
    // psk_dhe_ke. No session is resumed, but common clients send it and servers expect it.
    w.u16(PSK_KEY_EXCHANGE_MODES)?;
    w.vec16(|w| w.vec8(&[1]))?;
    // The 32 bytes of the only share follow immediately, so its lengths are written by hand.
    w.u16(KEY_SHARE)?;
    w.u16(2 + 4 + 32)?;
    w.u16(4 + 32)?;
    w.u16(X25519)?;
    w.u16(32)
}

fn write_fixed_parameters(w: &mut Writer<'_>, options: &TemplateOptions) -> Result<(), Error> {
    for (id, value) in [
        (id::MAX_IDLE_TIMEOUT, options.idle_timeout_ms),
        (id::MAX_UDP_PAYLOAD_SIZE, 1472),
        (id::INITIAL_MAX_DATA, 1 << 20),
        (id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL, 1 << 18),
        (id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE, 1 << 18),
        (id::INITIAL_MAX_STREAM_DATA_UNI, 1 << 18),
        (id::INITIAL_MAX_STREAMS_BIDI, 100),
        (id::INITIAL_MAX_STREAMS_UNI, 100),
        (id::ACTIVE_CONNECTION_ID_LIMIT, 2),
    ] {
        write_integer_parameter(w, id, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;
    use crate::tls::{ClientHello, read_message};

    #[test]
    fn written_hello_parses_back() {
        let template = ClientHelloTemplate::new(&TemplateOptions::default()).unwrap();
        let mut out = [0; 512];
        for sni in ["www.example.net", ""] {
            let mut w = Writer::new(&mut out);
            template
                .write(&mut w, &[1; 32], &[2; 32], sni, &[3; 8].into())
                .unwrap();
            let n = w.position();
            let mut r = Reader::new(&out[..n]);
            let (kind, body) = read_message(&mut r).unwrap();
            assert!(kind == CLIENT_HELLO && r.is_empty());
            let hello = ClientHello::parse(body).unwrap();
            assert_eq!((hello.random, hello.session_id), ([1; 32], &[][..]));
            assert_eq!(hello.sni, (!sni.is_empty()).then_some(sni.as_bytes()));
            assert_eq!(hello.alpn().collect::<Vec<_>>(), [b"h3"]);
            assert_eq!(
                hello.supported_groups().collect::<Vec<_>>(),
                [X25519, SECP256R1, SECP384R1, SECP521R1]
            );
            assert_eq!(
                hello.key_shares().collect::<Vec<_>>(),
                [(X25519, &[2; 32][..])]
            );
            let parameters = hello.transport_parameters.unwrap();
            assert_eq!(
                parameters.connection_id(id::INITIAL_SOURCE_CONNECTION_ID),
                Ok(Some([3; 8].into()))
            );
            assert_eq!(parameters.integer(id::MAX_IDLE_TIMEOUT), Ok(Some(5_000)));
        }
    }

    #[test]
    fn a_name_that_does_not_fit_is_an_error() {
        let template = ClientHelloTemplate::new(&TemplateOptions::default()).unwrap();
        let mut out = [0; 300];
        let mut w = Writer::new(&mut out);
        let name = "a".repeat(250);
        assert_eq!(
            template.write(&mut w, &[0; 32], &[0; 32], &name, &ConnectionId::EMPTY),
            Err(Error::NoRoom)
        );
    }
}
