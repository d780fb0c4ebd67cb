//! The fields of one certificate.

use x509_parser::certificate::{Validity, X509Certificate};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

use crate::oid::{dotted, hex};
use crate::{algorithms, alternative_names, names, sha256};

/// Longest serial number in bytes that is kept whole; RFC 5280 4.1.2.2 allows 20.
const MOST_SERIAL: usize = 64;

/// A certificate as the columns of its row say it, without its place in a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// Of the DER, hex.
    pub sha256: String,
    /// Of the next certificate of the chain, which [`describe`] does not know: for the caller.
    pub issuer_sha256: Option<String>,
    /// Distinguished names (RFC 4514).
    pub subject: String,
    pub issuer: String,
    /// Subject alternative names, a JSON array: DNS names and addresses as they are, others behind their type.
    pub sans: String,
    /// Hex, as encoded.
    pub serial: String,
    /// rsa, ec_p256, ec_p384, ed25519, ..., or an object identifier.
    pub key_algorithm: String,
    pub key_bits: Option<u16>,
    /// rsa_sha256, ecdsa_sha384, ..., or an object identifier.
    pub signature_algorithm: String,
    /// Basic constraints say that it is a CA's.
    pub is_ca: bool,
    /// Embedded signed certificate timestamps (RFC 6962 3.3), of which there may be none; `None` if their list
    /// does not parse.
    pub scts: Option<u8>,
    pub der_bytes: u32,
    /// Nanoseconds since 1970, UTC; `None` outside the years 1678 to 2261.
    pub not_before: Option<i64>,
    pub not_after: Option<i64>,
    /// What of it could not be read or kept, in one line; `None` if all could.
    pub error: Option<String>,
}

/// Reads a certificate. Of one that cannot be parsed only `sha256`, `der_bytes` and `error` are known; texts are
/// then empty and `sans` an empty array.
pub fn describe(der: &[u8]) -> Certificate {
    let mut found = Certificate {
        sha256: sha256(der),
        sans: "[]".to_owned(),
        der_bytes: u32::try_from(der.len()).unwrap_or(u32::MAX),
        ..Certificate::default()
    };
    let mut marks = Vec::new();
    match X509Certificate::from_der(der) {
        Ok((rest, certificate)) => {
            if !rest.is_empty() {
                marks.push(format!("{} bytes follow the certificate", rest.len()));
            }
            fill(&mut found, &certificate, &mut marks);
        }
        Err(_) => marks.push("certificate does not parse".to_owned()),
    }
    found.error = (!marks.is_empty()).then(|| marks.join("; "));
    found
}

/// When a certificate is valid: the first and the last second since 1970; `None` if it cannot be parsed.
pub(crate) fn validity(der: &[u8]) -> Option<(i64, i64)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let Validity {
        not_before,
        not_after,
    } = certificate.validity();
    Some((not_before.timestamp(), not_after.timestamp()))
}

fn fill(found: &mut Certificate, certificate: &X509Certificate<'_>, marks: &mut Vec<String>) {
    found.issuer = name("issuer", certificate.issuer(), marks);
    found.subject = name("subject", certificate.subject(), marks);
    let serial = certificate.raw_serial();
    if serial.len() > MOST_SERIAL {
        marks.push("serial number is cut".to_owned());
    }
    found.serial = hex(&serial[..serial.len().min(MOST_SERIAL)]);
    (found.key_algorithm, found.key_bits) = algorithms::key(certificate.public_key());
    found.signature_algorithm = algorithms::signature(&certificate.signature_algorithm);
    found.not_before = time("not_before", certificate.validity().not_before, marks);
    found.not_after = time("not_after", certificate.validity().not_after, marks);
    extensions(found, certificate, marks);
}

fn name(which: &str, name: &X509Name<'_>, marks: &mut Vec<String>) -> String {
    let (text, is_whole) = names::text(name);
    if !is_whole {
        marks.push(format!("{which} is cut"));
    }
    text
}

fn time(which: &str, time: ASN1Time, marks: &mut Vec<String>) -> Option<i64> {
    let ns = time.timestamp().checked_mul(1_000_000_000);
    if ns.is_none() {
        marks.push(format!("{which} is outside the years 1678 to 2261"));
    }
    ns
}

/// Extensions that columns are read from: object identifier, and what its failure is called.
const READ: [(&str, &str); 3] = [
    (ALTERNATIVE_NAMES, "subject alternative names"),
    ("2.5.29.19", "basic constraints"),
    (TIMESTAMPS, "signed certificate timestamps"),
];
const ALTERNATIVE_NAMES: &str = "2.5.29.17";
const TIMESTAMPS: &str = "1.3.6.1.4.1.11129.2.4.2";

/// Of an extension that is there twice, which RFC 5280 4.2 forbids, the first counts.
fn extensions(found: &mut Certificate, certificate: &X509Certificate<'_>, marks: &mut Vec<String>) {
    found.scts = Some(0);
    let mut count = [0u32; READ.len()];
    for extension in certificate.extensions() {
        let id = dotted(extension.oid.as_bytes());
        let Some(which) = READ.iter().position(|(read, _)| *read == id) else {
            continue;
        };
        let (_, called) = READ[which];
        count[which] = count[which].saturating_add(1);
        match count[which] {
            1 => {}
            2 => {
                marks.push(format!("{called} are there twice"));
                continue;
            }
            _ => continue,
        }
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(list) => {
                let (json, left_out) = alternative_names::json(&list.general_names);
                found.sans = json;
                if left_out > 0 {
                    marks.push(format!("{left_out} {called} are left out"));
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
}

#[cfg(test)]
mod tests;
