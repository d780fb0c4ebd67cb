//! Whether a certificate is for a name.

use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;

/// Returns whether the subject alternative names in a certificate include `name`, a DNS name or an IP address
/// in text form (RFC 9525 6). A wildcard matches one whole label; the common name does not count. Returns
/// `None` if `name` is neither, or if the certificate cannot be parsed.
pub fn name_matches(leaf: &[u8], name: &str) -> Option<bool> {
    let name = ServerName::try_from(name).ok()?;
    let der = CertificateDer::from(leaf);
    let leaf = EndEntityCert::try_from(&der).ok()?;
    Some(leaf.verify_is_valid_for_subject_name(&name).is_ok())
}

#[cfg(test)]
mod tests {
    use rcgen::{DnType, KeyPair, SanType};

    use super::*;
    use crate::testing::{parameters, self_signed, signed_by_itself};

    #[test]
    fn names_and_addresses() {
        let key = KeyPair::generate().unwrap();
        let mut of = parameters("a.example");
        let wildcard = SanType::DnsName("*.b.example".try_into().unwrap());
        let addresses =
            ["192.0.2.1", "2001:db8::1"].map(|text| SanType::IpAddress(text.parse().unwrap()));
        of.subject_alt_names.push(wildcard);
        of.subject_alt_names.extend(addresses);
        of.distinguished_name.push(DnType::CommonName, "c.example");
        let der = signed_by_itself(of, &key);
        for (name, matches) in [
            ("a.example", Some(true)),
            ("A.Example", Some(true)),
            ("a.example.", Some(true)),
            ("x.b.example", Some(true)),
            ("b.example", Some(false)),
            ("x.y.b.example", Some(false)),
            ("c.example", Some(false)),
            ("192.0.2.1", Some(true)),
            ("192.0.2.2", Some(false)),
            ("2001:db8:0::1", Some(true)),
            ("2001:db8::2", Some(false)),
            ("", None),
            ("a b", None),
            ("[2001:db8::1]", None),
        ] {
            assert_eq!(name_matches(&der, name), matches, "{name}");
        }
    }

    #[test]
    fn what_is_no_certificate() {
        let der = self_signed("a.example", &KeyPair::generate().unwrap());
        for wrong in [&[][..], b"x", &der[1..], &der[..der.len() - 1]] {
            assert_eq!(name_matches(wrong, "a.example"), None);
        }
    }
}
