//! Certificates for tests.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// Parameters of a server's certificate for a DNS name or address, valid in the year 2030.
pub fn parameters(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
    parameters.not_before = date_time_ymd(2030, 1, 1);
    parameters.not_after = date_time_ymd(2031, 1, 1);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

/// Start and end of the validity of [`parameters`], in seconds since 1970.
pub const NOT_BEFORE: u64 = 1_893_456_000;
pub const NOT_AFTER: u64 = 1_924_992_000;

pub fn signed_by_itself(parameters: CertificateParams, key: &KeyPair) -> Vec<u8> {
    parameters.self_signed(key).unwrap().der().to_vec()
}

/// A certificate of [`parameters`] that no CA signed.
pub fn self_signed(name: &str, key: &KeyPair) -> Vec<u8> {
    signed_by_itself(parameters(name), key)
}

/// A certificate authority.
pub type Authority = CertifiedIssuer<'static, KeyPair>;

fn of_authority(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new([]).unwrap();
    parameters.not_before = date_time_ymd(2020, 1, 1);
    parameters.not_after = date_time_ymd(2040, 1, 1);
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters
}

pub fn root(name: &str) -> Authority {
    CertifiedIssuer::self_signed(of_authority(name), KeyPair::generate().unwrap()).unwrap()
}

pub fn intermediate(name: &str, above: &Authority) -> Authority {
    let key = KeyPair::generate().unwrap();
    CertifiedIssuer::signed_by(of_authority(name), key, above).unwrap()
}

/// A server's certificate.
pub fn leaf(mut parameters: CertificateParams, above: &Authority) -> Vec<u8> {
    if parameters.extended_key_usages.is_empty() {
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    }
    let key = KeyPair::generate().unwrap();
    parameters.signed_by(&key, above).unwrap().der().to_vec()
}
