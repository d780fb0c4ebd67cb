//! Checks the name in a server's certificate: with OpenSSL, msquic verifies only the chain.

use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;

/// Returns why a certificate (DER) is not valid for `name`; `None` if it is.
pub fn why_not(certificate: &[u8], name: &str) -> Option<String> {
    let is_for = |name: &str| {
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let der = CertificateDer::from(certificate);
        let known = EndEntityCert::try_from(&der).map_err(|error| error.to_string())?;
        known
            .verify_is_valid_for_subject_name(&name)
            .map_err(|error| error.to_string())
    };
    let wrong: Option<String> = is_for(name).err();
    wrong.map(|error| format!("the certificate is not one for {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_certificate() {
        let made =
            rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate");
        let der = made.cert.der();
        assert_eq!(why_not(der, "a.test"), None);
        for (certificate, name) in [
            (&der[..], "b.test"),
            (&der[..], "x.a.test"),
            (&der[..], "127.0.0.1"),
            (&der[..], "a..test"),
            (&der[1..], "a.test"),
            (&[][..], "a.test"),
        ] {
            let why = why_not(certificate, name).expect("a reason");
            let begin = format!("the certificate is not one for {name}: ");
            assert!(why.starts_with(&begin) && !why.contains('\n'), "{why}");
        }
    }
}
