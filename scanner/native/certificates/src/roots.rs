//! Stores of root certificates.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor};
use sha2::{Digest, Sha256};
use webpki::anchor_from_trusted_cert;

use crate::oid::hex;

/// Roots that a chain may lead to.
#[derive(Clone, Debug)]
pub struct Roots {
    anchors: Vec<TrustAnchor<'static>>,
    origin: &'static str,
}

impl Roots {
    /// Returns the roots that Mozilla trusts for servers, from the crate webpki-roots.
    pub fn mozilla() -> Self {
        Roots {
            anchors: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
            origin: "webpki-roots",
        }
    }

    /// Reads a file of roots: certificates in PEM, one after the other, or one certificate in DER. Other PEM
    /// sections are skipped. Fails if the file has no certificate, or if a certificate cannot be parsed. The
    /// error is one sentence.
    pub fn of_pem(file: &[u8]) -> Result<Self, String> {
        let certificates = if file.first() == Some(&0x30) {
            vec![CertificateDer::from(file)]
        } else {
            CertificateDer::pem_slice_iter(file)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| {
                    format!("the file of roots is not valid PEM ({error}): give certificates in PEM or one in DER")
                })?
        };
        if certificates.is_empty() {
            return Err(
                "the file of roots has no certificate: give certificates in PEM or one in DER"
                    .to_owned(),
            );
        }
        let anchors = certificates.iter().zip(1..).map(|(certificate, n)| {
            let anchor = anchor_from_trusted_cert(certificate);
            anchor.map(|anchor| anchor.to_owned()).map_err(|error| {
                format!(
                    "certificate {n} in the file of roots cannot be parsed ({error}): remove it"
                )
            })
        });
        Ok(Roots {
            anchors: anchors.collect::<Result<Vec<_>, _>>()?,
            origin: "file",
        })
    }

    /// Returns a line of text that identifies the store: its origin, the number of roots, and a hash of their
    /// names and keys. The hash does not depend on the order of the roots.
    pub fn name(&self) -> String {
        let mut parts: Vec<[&[u8]; 2]> = self
            .anchors
            .iter()
            .map(|anchor| [&anchor.subject[..], &anchor.subject_public_key_info[..]])
            .collect();
        parts.sort_unstable();
        let mut hash = Sha256::new();
        for part in parts.iter().flatten() {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let (origin, count, hash) = (self.origin, parts.len(), hex(&hash.finalize()));
        format!("{origin}, {count} roots, sha256 {hash}")
    }

    pub(crate) fn anchors(&self) -> &[TrustAnchor<'static>] {
        &self.anchors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::root;

    #[test]
    fn roots_of_mozilla() {
        let name = Roots::mozilla().name();
        assert!(name.starts_with("webpki-roots, 1") && name.contains(" roots, sha256 "));
        assert!(Roots::mozilla().anchors().len() > 100);
    }

    #[test]
    fn files_in_pem_and_der() {
        let (a, b) = (root("A"), root("B"));
        let key = a.key().serialize_pem();
        let both = Roots::of_pem(format!("{key}{}{}", a.pem(), b.pem()).as_bytes()).unwrap();
        let turned = Roots::of_pem(format!("# B\n{}\n{}", b.pem(), a.pem()).as_bytes()).unwrap();
        let single = Roots::of_pem(a.pem().as_bytes()).unwrap();
        let der = Roots::of_pem(a.der()).unwrap();
        let counts = [&both, &turned, &single, &der].map(|roots| roots.anchors().len());
        assert_eq!(counts, [2, 2, 1, 1]);
        assert_eq!(both.name(), turned.name());
        assert_eq!(single.name(), der.name());
        assert_ne!(both.name(), single.name());
        assert!(both.name().starts_with("file, 2 roots, sha256 "));
    }

    #[test]
    fn files_that_are_refused() {
        let pem = root("A").pem();
        let der = root("A").der().to_vec();
        let wrong = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        for (file, part) in [
            (b"".to_vec(), "has no certificate"),
            (b"nothing".to_vec(), "has no certificate"),
            (
                root("A").key().serialize_pem().into_bytes(),
                "has no certificate",
            ),
            (
                pem.replace("-----END", "END").into_bytes(),
                "is not valid PEM",
            ),
            (pem.replacen("MI", "M?", 1).into_bytes(), "is not valid PEM"),
            (
                format!("{pem}{wrong}").into_bytes(),
                "certificate 2 in the file",
            ),
            (der[..der.len() - 1].to_vec(), "certificate 1 in the file"),
        ] {
            let error = Roots::of_pem(&file).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
