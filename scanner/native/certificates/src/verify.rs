//! The path from a server's certificate to a root (RFC 5280 6), for TLS servers and at a given time.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, KeyUsage};

use crate::Roots;
use crate::describe::validity;
use crate::hashes::chain_key;

/// Verifies chains against one store, and remembers the outcomes of the last of them.
pub struct Verifier {
    roots: Roots,
    /// By chain: when the outcome holds, and the outcome.
    known: HashMap<[u8; 32], (Range<i64>, Outcome)>,
    /// Their order of arrival.
    order: VecDeque<[u8; 32]>,
    most: usize,
}

/// Nothing, or why there is no path.
type Outcome = Result<(), &'static str>;

impl Verifier {
    /// A verifier that remembers `most` chains.
    pub fn new(roots: Roots, most: usize) -> Self {
        Verifier {
            roots,
            known: HashMap::new(),
            order: VecDeque::new(),
            most,
        }
    }

    /// The store.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Whether `chain` (DER, leaf first, the others in any order) leads to a root of the store at `at`, in
    /// seconds since 1970: signatures, validity, constraints, and use by a TLS server. Not whether the leaf is
    /// for a name ([`crate::name_matches`]), nor whether a certificate was revoked. The error is a few words,
    /// the same for all chains with the same fault.
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

/// The seconds around `now` in which no certificate of the chain begins or ceases to be valid. Roots have no
/// validity in a store.
fn steady(chain: &[&[u8]], now: i64) -> Range<i64> {
    let mut range = i64::MIN..i64::MAX;
    for der in chain {
        let Some((not_before, not_after)) = validity(der) else {
            // Not known: good for this second alone.
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

/// The fault without what differs between chains.
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
