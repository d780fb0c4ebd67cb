//! The certificate chain. Hashes and results of checks are in the handshake's row. Each certificate has a separate row,
//! once per run.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use firstflight_certificates::{
    Certificate, Roots, Verifier, chain_sha256, describe, name_matches, sha256,
};
use firstflight_core::targets::Target;

use super::{RowContext, Sides};
use crate::cdn::Rules;
use crate::connection::Connection;
use crate::row::{CertificateRow, HandshakeRow, Text};

/// Maximum number of certificates remembered as written. The set is then cleared, and some certificates are written
/// twice.
const MOST_WRITTEN: usize = 100_000;

/// Maximum number of server certificates with a remembered CDN.
const MOST_CDNS: usize = 100_000;

/// Maximum number of chains with remembered results of checks.
const MOST_CHECKED: usize = 10_000;

/// Maximum number of certificates in a chain that have rows. Longer lists are not chains: a server can put thousands of
/// certificates with a few bytes into a message.
const MOST_OF_A_CHAIN: usize = 32;

/// Remembers certificates during a run.
pub struct Inspector(Mutex<Known>);

struct Known {
    /// Checks chains. `None`: chains are not checked.
    verifier: Option<Verifier>,
    /// Hashes of certificates that have a row.
    written: HashSet<String>,
    /// CDNs by the hash of a server's certificate. `None`: the certificate does not identify the CDN.
    cdns: HashMap<String, Option<String>>,
}

impl Inspector {
    /// Checks chains up to `roots`. `None`: no checks.
    pub fn new(roots: Option<Roots>) -> Inspector {
        Inspector(Mutex::new(Known {
            verifier: roots.map(|roots| Verifier::new(roots, MOST_CHECKED)),
            written: HashSet::new(),
            cdns: HashMap::new(),
        }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Returns whether a certificate has no row yet, and remembers it as written.
    fn is_new(&mut self, hash: &str) -> bool {
        if self.written.contains(hash) {
            return false;
        }
        if self.written.len() >= MOST_WRITTEN {
            self.written.clear();
        }
        self.written.insert(hash.to_owned())
    }

    /// Returns the CDN that a server's certificate identifies.
    fn cdn(&mut self, rules: &Rules, der: &[u8], hash: &str) -> Option<String> {
        if let Some(known) = self.cdns.get(hash) {
            return known.clone();
        }
        if self.cdns.len() >= MOST_CDNS {
            self.cdns.clear();
        }
        let found = rules.by_certificate(&describe(der)).map(str::to_owned);
        self.cdns.insert(hash.to_owned(), found.clone());
        found
    }
}

/// Fills `row` from the certificates in `connection`, and writes rows for certificates that have no row yet.
pub fn fill<'a>(
    row: &mut HandshakeRow<'a>,
    connection: &'a Connection,
    target: &Target<'_>,
    context: &RowContext,
    sides: &mut Sides,
) {
    if let Some(message) = connection.certificate() {
        row.certificate_compression = message.compression_name().map(Text::from);
        row.certificate_bytes = Some(message.bytes);
        row.certificate_uncompressed_bytes = Some(message.uncompressed_bytes);
    }
    row.signature_valid = connection.note.signature_valid;
    let Some(chain) = connection
        .tls()
        .peer_certificates()
        .filter(|chain| !chain.is_empty())
    else {
        return;
    };
    row.ocsp_stapled = Some(connection.note.ocsp);
    row.chain_length = Some(chain.len().min(255) as u8);
    let ders: Vec<&[u8]> = chain.iter().map(|der| der.as_ref()).collect();
    let hashes: Vec<String> = ders
        .iter()
        .take(MOST_OF_A_CHAIN)
        .map(|der| sha256(der))
        .collect();
    row.chain_sha256 = Some(chain_sha256(&ders).into());
    row.leaf_sha256 = Some(hashes[0].clone().into());
    if !target.domain.is_empty() {
        row.name_matches = name_matches(ders[0], target.domain);
    }
    let mut known = context.inspector.known();
    if let Some(verifier) = &mut known.verifier {
        let result = verifier.verify(&ders, seconds());
        row.verified = Some(result.is_ok());
        row.verify_error = result.err().map(Text::from);
    }
    if let Some(rules) = &context.rules {
        row.cdn_by_certificate = known.cdn(rules, ders[0], &hashes[0]).map(Text::from);
    }
    let Some(segments) = &mut sides.certificates else {
        return;
    };
    for (position, (der, hash)) in ders.iter().zip(&hashes).enumerate() {
        if known.is_new(hash) {
            let issuer = hashes.get(position + 1).map(|hash| hash.as_str().into());
            segments.push(
                &certificate_row(&describe(der), position, hash, issuer, der.len()),
                0,
            );
        }
    }
}

fn certificate_row<'a>(
    found: &'a Certificate,
    position: usize,
    sha256: &'a str,
    issuer_sha256: Option<Text<'a>>,
    bytes: usize,
) -> CertificateRow<'a> {
    CertificateRow {
        sha256: sha256.into(),
        position: position.min(255) as u8,
        issuer_sha256,
        subject: found.subject.as_str().into(),
        issuer: found.issuer.as_str().into(),
        sans: found.sans.as_str().into(),
        serial: found.serial.as_str().into(),
        key_algorithm: found.key_algorithm.as_str().into(),
        key_bits: found.key_bits,
        signature_algorithm: found.signature_algorithm.as_str().into(),
        is_ca: found.is_ca,
        scts: found.scts,
        der_bytes: bytes as u32,
        not_before: found.not_before,
        not_after: found.not_after,
        error: found.error.as_deref().map(Text::from),
    }
}

/// Returns the seconds since 1970, for the validity of certificates.
fn seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |passed| passed.as_secs())
}
