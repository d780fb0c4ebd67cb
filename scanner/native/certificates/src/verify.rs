//! The path from a server's certificate to a root (RFC 5280 6), for TLS servers and at a given time.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, KeyUsage};

use crate::Roots;
use crate::describe::validity;
use crate::hashes::chain_key;

/// Verifies chains against a store, and remembers the latest outcomes.
pub struct Verifier {
    roots: Roots,
    /// By chain: the time range in which the outcome holds, and the outcome.
    known: HashMap<[u8; 32], (Range<i64>, Outcome)>,
    /// The remembered chains in their order of arrival.
    order: VecDeque<[u8; 32]>,
    most: usize,
}

/// Success, or why there is no path.
type Outcome = Result<(), &'static str>;

impl Verifier {
    /// Creates a verifier that remembers `most` chains.
    pub fn new(roots: Roots, most: usize) -> Self {
        Verifier {
            roots,
            known: HashMap::new(),
            order: VecDeque::new(),
            most,
        }
    }

    /// Returns the store.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Verifies that `chain` (DER, leaf first, the others in any order) leads to a root of the store at `at`,
    /// in seconds since 1970. Checks signatures, validity, constraints, and use by a TLS server. Does not
    /// check whether the leaf is for a name ([`crate::name_matches`]), or whether a certificate was revoked.
    /// The error is a few words, which are the same for all chains with the same fault.
    pub fn verify(&mut self, chain: &[&[u8]], at: u64) -> Result<(), String> {
        let key = chain_key(chain);
        let now = i64::try_from(at).unwrap_or(i64::MAX);
        if let Some((holds, outcome)) = self.known.get(&key)
            && holds.contains(&now)
        {
            return outcome.map_err(str::to_owned);
        }
        let outcome = path(&self.roots, chain, at);
        self.remember(key, (steady(chain, now), outcome));
        outcome.map_err(str::to_owned)
    }

    fn remember(&mut self, key: [u8; 32], entry: (Range<i64>, Outcome)) {
        if self.known.insert(key, entry).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Returns the seconds around `now` in which no certificate of the chain becomes valid or invalid. Roots in a
/// store have no validity.
fn steady(chain: &[&[u8]], now: i64) -> Range<i64> {
    let mut range = i64::MIN..i64::MAX;
    for der in chain {
        let Some((not_before, not_after)) = validity(der) else {
            // The validity is unknown. The outcome holds only for this second.
            return now..now.saturating_add(1);
        };
        for change in [not_before, not_after.saturating_add(1)] {
            if change <= now {
                range.start = range.start.max(change);
            } else {
                range.end = range.end.min(change);
            }
        }
    }
    range
}

fn path(roots: &Roots, chain: &[&[u8]], at: u64) -> Outcome {
    let chain: Vec<CertificateDer<'_>> = chain.iter().map(|der| (*der).into()).collect();
    let (leaf, others) = chain.split_first().ok_or("no certificate")?;
    let leaf = EndEntityCert::try_from(leaf).map_err(words)?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(at));
    let usage = KeyUsage::server_auth();
    leaf.verify_for_usage(
        ALL_VERIFICATION_ALGS,
        roots.anchors(),
        others,
        time,
        usage,
        None,
        None,
    )
    .map(drop)
    .map_err(words)
}

/// Returns the fault, without details that differ between chains.
fn words(error: Error) -> &'static str {
    match error {
        Error::UnknownIssuer => "no path to a root of the store",
        Error::CertExpired { .. } => "expired",
        Error::CertNotValidYet { .. } => "not valid yet",
        Error::InvalidCertValidity => "validity ends before it begins",
        Error::CaUsedAsEndEntity => "certificate of a CA as the leaf",
        Error::EndEntityUsedAsCa => "certificate that is no CA's in the path",
        Error::PathLenConstraintViolated => "path longer than a CA allows",
        Error::NameConstraintViolation => "name that a CA may not sign",
        Error::RequiredEkuNotFoundContext(_) | Error::EmptyEkuExtension => {
            "not for servers by its extended key usage"
        }
        Error::InvalidSignatureForPublicKey => "wrong signature",
        Error::UnsupportedSignatureAlgorithmContext(_)
        | Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_)
        | Error::SignatureAlgorithmMismatch => "signature algorithm not supported",
        Error::UnsupportedCriticalExtension => "critical extension not supported",
        Error::UnsupportedCertVersion => "version other than 3",
        Error::CertDistrusted => "distrusted key",
        Error::MaximumNameConstraintComparisonsExceeded
        | Error::MaximumPathBuildCallsExceeded
        | Error::MaximumPathDepthExceeded
        | Error::MaximumSignatureChecksExceeded => "too many certificates to try",
        Error::BadDer
        | Error::BadDerTime
        | Error::ExtensionValueInvalid
        | Error::InvalidSerialNumber
        | Error::MalformedExtensions
        | Error::TrailingData(_) => "certificate does not parse",
        _ => "other fault",
    }
}

#[cfg(test)]
mod tests;
