//! A certificate's fields.

use x509_parser::extensions::{ParsedExtension, X509Extension};
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo, X509Name};

use crate::oid::{dotted, hex};
use crate::parts::{self, Parts};
use crate::{algorithms, alternative_names, names, sha256};

/// Longest serial number, in bytes, that is kept whole. RFC 5280 4.1.2.2 allows 20.
const MOST_SERIAL: usize = 64;

/// The columns in a certificate's row, without the position in a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// SHA-256 of the DER, hex.
    pub sha256: String,
    /// SHA-256 of the next certificate in the chain. The caller sets it, because [`describe`] has only one
    /// certificate.
    pub issuer_sha256: Option<String>,
    /// Distinguished names (RFC 4514).
    pub subject: String,
    pub issuer: String,
    /// Subject alternative names, a JSON array: DNS names and addresses as they are, others with the prefix
    /// of their type.
    pub sans: String,
    /// Hex, as encoded.
    pub serial: String,
    /// rsa, ec_p256, ec_p384, ed25519, ..., or an object identifier.
    pub key_algorithm: String,
    pub key_bits: Option<u16>,
    /// rsa_sha256, ecdsa_sha384, ..., or an object identifier.
    pub signature_algorithm: String,
    /// The basic constraints mark a CA certificate.
    pub is_ca: bool,
    /// Number of embedded signed certificate timestamps (RFC 6962 3.3), possibly 0; `None` if their list does
    /// not parse.
    pub scts: Option<u8>,
    pub der_bytes: u32,
    /// Nanoseconds since 1970, UTC; `None` outside the years 1678 to 2261.
    pub not_before: Option<i64>,
    pub not_after: Option<i64>,
    /// The faults in reading or keeping the fields, as a line of text; `None`: no faults.
    pub error: Option<String>,
}

/// Reads a certificate. A field that cannot be read is empty or `None`; `error` names it, and the other
/// fields are set. If `der` is not a certificate, only `sha256`, `der_bytes` and `error` are set, and `sans`
/// is an empty array.
pub fn describe(der: &[u8]) -> Certificate {
    let mut found = Certificate {
        sha256: sha256(der),
        sans: "[]".to_owned(),
        der_bytes: u32::try_from(der.len()).unwrap_or(u32::MAX),
        ..Certificate::default()
    };
    let mut marks = Vec::new();
    match Parts::of(der) {
        Some(parts) => {
            if parts.behind > 0 {
                marks.push(format!("{} bytes follow the certificate", parts.behind));
            }
            fill(&mut found, &parts, &mut marks);
        }
        None => marks.push("certificate does not parse".to_owned()),
    }
    found.error = (!marks.is_empty()).then(|| marks.join("; "));
    found
}

/// Returns the first and the last second, since 1970, in which a certificate is valid; `None` if they cannot
/// be read.
pub(crate) fn validity(der: &[u8]) -> Option<(i64, i64)> {
    let parts = Parts::of(der)?;
    let [not_before, not_after] = [parts.not_before, parts.not_after].map(ASN1Time::from_der);
    Some((
        not_before.ok()?.1.timestamp(),
        not_after.ok()?.1.timestamp(),
    ))
}

fn fill(found: &mut Certificate, parts: &Parts<'_>, marks: &mut Vec<String>) {
    found.issuer = name("issuer", parts.issuer, marks);
    found.subject = name("subject", parts.subject, marks);
    let serial = parts.serial;
    if serial.len() > MOST_SERIAL {
        marks.push("serial number is cut".to_owned());
    }
    found.serial = hex(&serial[..serial.len().min(MOST_SERIAL)]);
    match SubjectPublicKeyInfo::from_der(parts.public_key) {
        Ok((_, key)) => (found.key_algorithm, found.key_bits) = algorithms::key(&key),
        Err(_) => marks.push("public key does not parse".to_owned()),
    }
    match AlgorithmIdentifier::from_der(parts.signature_algorithm) {
        Ok((_, algorithm)) => found.signature_algorithm = algorithms::signature(&algorithm),
        Err(_) => marks.push("signature algorithm does not parse".to_owned()),
    }
    found.not_before = time("not_before", parts.not_before, marks);
    found.not_after = time("not_after", parts.not_after, marks);
    extensions(found, parts.extensions, marks);
}

fn name(which: &str, name: &[u8], marks: &mut Vec<String>) -> String {
    // The parser stops at a relative name that it cannot read.
    let names = parts::list(name).map_or(0, Iterator::count);
    let parsed = X509Name::from_der(name).ok().map(|(_, name)| name);
    let Some(name) = parsed.filter(|name| name.iter_rdn().count() == names) else {
        marks.push(format!("{which} does not parse"));
        return String::new();
    };
    let (text, is_whole) = names::text(&name);
    if !is_whole {
        marks.push(format!("{which} is cut"));
    }
    text
}

fn time(which: &str, time: &[u8], marks: &mut Vec<String>) -> Option<i64> {
    let Ok((_, time)) = ASN1Time::from_der(time) else {
        marks.push(format!("{which} is no date"));
        return None;
    };
    let ns = time.timestamp().checked_mul(1_000_000_000);
    if ns.is_none() {
        marks.push(format!("{which} is outside the years 1678 to 2261"));
    }
    ns
}

/// Extensions that columns are read from: object identifier, and name in error messages.
const READ: [(&str, &str); 3] = [
    (ALTERNATIVE_NAMES, "subject alternative names"),
    ("2.5.29.19", "basic constraints"),
    (TIMESTAMPS, "signed certificate timestamps"),
];
const ALTERNATIVE_NAMES: &str = "2.5.29.17";
const TIMESTAMPS: &str = "1.3.6.1.4.1.11129.2.4.2";

/// Reads the extensions. RFC 5280 4.2 forbids an extension to occur twice; if it does, the first one counts.
fn extensions(found: &mut Certificate, extensions: &[u8], marks: &mut Vec<String>) {
    found.scts = Some(0);
    if extensions.is_empty() {
        return;
    }
    let Some(list) = parts::list(extensions) else {
        found.scts = None;
        marks.push("extensions do not parse".to_owned());
        return;
    };
    let (mut count, mut unread) = ([0u32; READ.len()], 0);
    for extension in list {
        let Ok((_, extension)) = X509Extension::from_der(extension) else {
            unread += 1;
            continue;
        };
        let id = dotted(extension.oid.as_bytes());
        let Some(which) = READ.iter().position(|(read, _)| *read == id) else {
            continue;
        };
        let (_, called) = READ[which];
        count[which] = count[which].saturating_add(1);
        match count[which] {
            1 => {}
            2 => {
                marks.push(format!("{called} appear twice"));
                continue;
            }
            _ => continue,
        }
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(list) => {
                let (json, left_out) = alternative_names::json(&list.general_names);
                found.sans = json;
                if left_out > 0 {
                    marks.push(format!("{left_out} {called} are omitted"));
                }
            }
            ParsedExtension::BasicConstraints(constraints) => found.is_ca = constraints.ca,
            ParsedExtension::SCT(list) => {
                found.scts = Some(u8::try_from(list.len()).unwrap_or(u8::MAX));
            }
            _ => {
                if id == TIMESTAMPS {
                    found.scts = None;
                }
                marks.push(format!("{called} do not parse"));
            }
        }
    }
    if unread > 0 {
        // An unreadable extension may have been the timestamps.
        found.scts = found.scts.filter(|count| *count > 0);
        marks.push(format!("{unread} extensions do not parse"));
    }
}

#[cfg(test)]
mod tests;
