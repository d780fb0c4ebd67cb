//! What comes with a certificate: a stapled OCSP response, compression.

use rustls::compress::{BROTLI_COMPRESSOR, ZLIB_COMPRESSOR};

use super::*;

#[test]
fn a_stapled_response_is_noted() {
    for (ocsp, expected) in [(&b""[..], false), (&b"a response"[..], true)] {
        let mut world = World::new(b"h3");
        world.change_tls(|tls| tls.cert_resolver = tls_with(1, ocsp).cert_resolver);
        let mut client = client();
        world.run(&mut client);
        assert_eq!(client.observed.outcome, Some(Outcome::Done));
        assert_eq!(client.note.ocsp, expected);
    }
}

#[test]
fn a_compressed_chain_is_read_and_has_both_sizes() {
    // Message, context, list; each entry with its length and without extensions (RFC 8446 4.4.2).
    let (certificate, _) = authority();
    let whole = (4 + 1 + 3 + 3 * (3 + certificate.len() + 2)) as u32;
    for (compressors, name) in [
        (Vec::new(), None),
        (vec![BROTLI_COMPRESSOR], Some("brotli")),
        (vec![ZLIB_COMPRESSOR], Some("zlib")),
    ] {
        let mut world = World::new(b"h3");
        world.change_tls(|tls| {
            tls.cert_resolver = tls_with(3, &[]).cert_resolver;
            tls.cert_compressors = compressors;
        });
        let mut client = client();
        world.run(&mut client);
        assert_eq!(client.observed.outcome, Some(Outcome::Done), "{name:?}");
        assert_eq!(client.note.signature_valid, Some(true), "{name:?}");
        let message = client.certificate().unwrap();
        assert_eq!(message.compression_name(), name);
        assert_eq!(message.uncompressed_bytes, whole, "{name:?}");
        // The same certificate again takes few bytes.
        assert_eq!(message.bytes < whole / 2, name.is_some(), "{message:?}");
        let chain = client.tls().peer_certificates().unwrap();
        assert_eq!(chain.len(), 3);
        assert!(chain.iter().all(|one| one[..] == certificate[..]));
    }
}
