//! Signatures, stapled OCSP responses and compression of certificates.

use rustls::compress::{BROTLI_COMPRESSOR, ZLIB_COMPRESSOR};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::*;

/// A resolver with this certificate, even if it is invalid. It signs with the key of [`authority`].
fn showing(certificate: Vec<u8>) -> Arc<dyn rustls::server::ResolvesServerCert> {
    let (_, key) = authority().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
    let shown = rustls::sign::CertifiedKey::new(vec![certificate.into()], key);
    Arc::new(rustls::sign::SingleCertAndKey::from(shown))
}

#[test]
fn a_signature_is_right_whatever_else_the_certificate_is() {
    let (certificate, key) = authority().clone();
    let of_key = PrivatePkcs8KeyDer::from(key);
    let key = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&of_key, &rcgen::PKCS_ECDSA_P256_SHA256);
    let mut unknown = rcgen::CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    unknown.set_criticality(true);
    let mut parameters = rcgen::CertificateParams::new(["a.test".to_owned()]).unwrap();
    parameters.custom_extensions.push(unknown);
    let critical = parameters.self_signed(&key.unwrap()).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
    for (shown, expected) in [
        ([&certificate[..], b"behind"].concat(), Some(true)),
        (critical.der().to_vec(), Some(true)),
        (certificate, Some(true)),
        // A certificate of another key; bytes that are not a certificate.
        (other.cert.der().to_vec(), Some(false)),
        (b"no certificate".to_vec(), None),
    ] {
        let mut world = World::new(b"h3");
        world.change_tls(|tls| tls.cert_resolver = showing(shown));
        let mut client = client();
        world.run(&mut client);
        assert_eq!(client.observed.outcome, Some(Outcome::Done));
        assert_eq!(client.note.signature_valid, expected);
    }
}

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
    // Message, context, list; each entry with the length and without extensions (RFC 8446 4.4.2).
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
        // Copies of the certificate compress to few bytes.
        assert_eq!(message.bytes < whole / 2, name.is_some(), "{message:?}");
        let chain = client.tls().peer_certificates().unwrap();
        assert_eq!(chain.len(), 3);
        assert!(chain.iter().all(|element| element[..] == certificate[..]));
    }
}
