//! Certificates whole, unusual and damaged.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, IsCa, KeyPair, SanType, SerialNumber,
    date_time_ymd,
};

use super::*;
use crate::numbers::Numbers;
use crate::testing::{NOT_AFTER, NOT_BEFORE, parameters, signed_by_itself};

fn described(of: CertificateParams) -> Certificate {
    describe(&signed_by_itself(of, &KeyPair::generate().unwrap()))
}

/// An extension of RFC 6962 3.3 with `count` timestamps.
fn timestamps(count: u16) -> CustomExtension {
    let timestamp = [
        &[0, 47][..],
        &[0],
        &[7; 32],
        &[0; 8],
        &[0, 0],
        &[4, 3, 0, 0],
    ]
    .concat();
    let list = timestamp.repeat(usize::from(count));
    let size = list.len() as u16;
    // The content is an octet string with a length of two bytes.
    let head = [
        &[4, 0x82][..],
        &(size + 2).to_be_bytes(),
        &size.to_be_bytes(),
    ]
    .concat();
    let id = [1, 3, 6, 1, 4, 1, 11129, 2, 4, 2];
    CustomExtension::from_oid_content(&id, [head, list].concat())
}

#[test]
fn every_field() {
    let mut of = parameters("a.example");
    of.serial_number = Some(SerialNumber::from_slice(&[0x7f, 0, 1]));
    let address = SanType::IpAddress("192.0.2.1".parse().unwrap());
    of.subject_alt_names.push(address);
    of.is_ca = IsCa::Ca(BasicConstraints::Constrained(3));
    of.custom_extensions.push(timestamps(2));
    let der = signed_by_itself(of, &KeyPair::generate().unwrap());
    let expected = Certificate {
        sha256: sha256(&der),
        issuer_sha256: None,
        subject: "CN=a.example".to_owned(),
        issuer: "CN=a.example".to_owned(),
        sans: r#"["a.example","192.0.2.1"]"#.to_owned(),
        serial: "7f0001".to_owned(),
        key_algorithm: "ec_p256".to_owned(),
        key_bits: Some(256),
        signature_algorithm: "ecdsa_sha256".to_owned(),
        is_ca: true,
        scts: Some(2),
        der_bytes: der.len() as u32,
        not_before: Some(NOT_BEFORE as i64 * 1_000_000_000),
        not_after: Some(NOT_AFTER as i64 * 1_000_000_000),
        error: None,
    };
    assert_eq!(describe(&der), expected);
    let followed = describe(&[&der[..], b"xy"].concat());
    let mark = "2 bytes follow the certificate".to_owned();
    assert_eq!(followed.subject, "CN=a.example");
    assert_eq!(followed.error, Some(mark));
    let seconds = (NOT_BEFORE as i64, NOT_AFTER as i64);
    assert_eq!(validity(&der), Some(seconds));
}

#[test]
fn what_is_not_there() {
    let mut of = parameters("a.example");
    of.subject_alt_names.clear();
    let found = described(of);
    assert_eq!((found.sans.as_str(), found.is_ca), ("[]", false));
    assert_eq!((found.scts, found.error), (Some(0), None));
}

#[test]
fn what_does_not_parse() {
    for (der, bytes) in [(&b""[..], 0), (b"\x30\x03\x02\x01", 4), (&[0xff; 300], 300)] {
        let expected = Certificate {
            sha256: sha256(der),
            sans: "[]".to_owned(),
            der_bytes: bytes,
            error: Some("certificate does not parse".to_owned()),
            ..Certificate::default()
        };
        assert_eq!(describe(der), expected);
        assert_eq!(validity(der), None);
    }
    let extension = |id: &[u64], content: &[u8]| {
        let mut of = parameters("a.example");
        of.subject_alt_names.clear();
        let extension = CustomExtension::from_oid_content(id, content.to_vec());
        of.custom_extensions.push(extension);
        described(of)
    };
    let found = extension(&[2, 5, 29, 17], &[2, 1, 5]);
    let mark = "subject alternative names do not parse".to_owned();
    assert_eq!((found.error, found.sans.as_str()), (Some(mark), "[]"));
    let found = extension(&[2, 5, 29, 19], &[2, 1, 5]);
    let mark = "basic constraints do not parse".to_owned();
    assert_eq!((found.error, found.is_ca), (Some(mark), false));
    let found = extension(&[1, 3, 6, 1, 4, 1, 11129, 2, 4, 2], &[2, 1, 5]);
    let mark = "signed certificate timestamps do not parse".to_owned();
    assert_eq!((found.error, found.scts), (Some(mark), None));
    // No column is read from this extension.
    assert_eq!(extension(&[2, 5, 29, 15], &[2, 1, 5]).error, None);
}

/// Describes a certificate in which `to` replaces the first occurrence of `from`.
fn replaced(der: &[u8], from: &[u8], to: &[u8]) -> Certificate {
    let at = der.windows(from.len()).position(|part| part == from);
    let (before, behind) = der.split_at(at.unwrap());
    describe(&[before, to, &behind[to.len()..]].concat())
}

#[test]
fn a_field_that_cannot_be_read_costs_no_other() {
    let mut of = parameters("a.example");
    of.custom_extensions.push(timestamps(2));
    let der = signed_by_itself(of, &KeyPair::generate().unwrap());
    let whole = describe(&der);
    let (not_before, not_after) = (b"300101000000Z", b"310101000000Z");
    let expected = |error: &str| Certificate {
        error: Some(error.to_owned()),
        ..whole.clone()
    };
    // A 30th of February, a 13th month, a 32nd day, 24 o'clock, letters (X.680 46, 47; RFC 5280 4.1.2.5).
    for date in [
        b"300230000000Z",
        b"301301000000Z",
        b"300132000000Z",
        b"300101250000Z",
        b"aaaaaaaaaaaaZ",
    ] {
        for (which, time) in [("not_before", not_before), ("not_after", not_after)] {
            let mut found = replaced(&der, time, date);
            let mut expected = expected(&format!("{which} is no date"));
            for description in [&mut expected, &mut found] {
                description.sha256.clear();
            }
            match which {
                "not_before" => expected.not_before = None,
                _ => expected.not_after = None,
            }
            assert_eq!(found, expected);
        }
    }
    // Another type or too long a length within the issuer, the key, the signature algorithm, an extension.
    let attribute = b"\x31\x12\x30\x10\x06\x03\x55\x04\x03";
    let key = b"\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";
    let algorithm = b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02\x03";
    let alternative = b"\x30\x14\x06\x03\x55\x1d\x11";
    for (from, to, error) in [
        (&attribute[..], &b"\x02"[..], "issuer does not parse"),
        (key, b"\x02", "public key does not parse"),
        (
            algorithm,
            b"\x30\x0a\x06\x20",
            "signature algorithm does not parse",
        ),
        (alternative, b"\x02", "1 extensions do not parse"),
    ] {
        let found = replaced(&der, from, to);
        assert_eq!(found.error.as_deref(), Some(error));
        assert_eq!(found.subject, "CN=a.example", "{error}");
        assert_eq!(found.not_after, whole.not_after, "{error}");
        assert_eq!(found.scts, Some(2), "{error}");
        assert_eq!(found.serial, whole.serial, "{error}");
    }
}

#[test]
fn an_extension_counts_once() {
    let mut of = parameters("a.example");
    of.custom_extensions = vec![timestamps(1), timestamps(2), timestamps(3)];
    let found = described(of);
    let mark = "signed certificate timestamps appear twice".to_owned();
    assert_eq!((found.scts, found.error), (Some(1), Some(mark)));
}

#[test]
fn large_numbers() {
    let mut of = parameters("a.example");
    of.custom_extensions = vec![timestamps(300)];
    of.serial_number = Some(SerialNumber::from_slice(&[0x11; 64]));
    of.not_before = date_time_ymd(1600, 1, 1);
    of.not_after = date_time_ymd(9999, 12, 31);
    let found = described(of);
    let marks = "not_before is outside the years 1678 to 2261; \
                 not_after is outside the years 1678 to 2261";
    assert_eq!(found.error.as_deref(), Some(marks));
    assert_eq!((found.not_before, found.not_after), (None, None));
    assert_eq!((found.scts, found.serial), (Some(255), "11".repeat(64)));

    let mut of = parameters("a.example");
    of.serial_number = Some(SerialNumber::from_slice(&[0x11; 65]));
    let found = described(of);
    assert_eq!(found.error.as_deref(), Some("serial number is cut"));
    assert_eq!(found.serial, "11".repeat(64));

    let names: Vec<String> = (0..1500).map(|n| format!("n{n}.example")).collect();
    let mut of = parameters("a.example");
    of.subject_alt_names = CertificateParams::new(names).unwrap().subject_alt_names;
    let found = described(of);
    let mark = "500 subject alternative names are omitted";
    assert_eq!(found.error.as_deref(), Some(mark));
    let kept: Vec<String> = serde_json::from_str(&found.sans).unwrap();
    assert_eq!((kept.len(), kept[999].as_str()), (1000, "n999.example"));
}

#[test]
fn damaged_certificates_do_not_panic() {
    let mut of = parameters("a.example");
    of.custom_extensions.push(timestamps(2));
    let der = signed_by_itself(of, &KeyPair::generate().unwrap());
    for n in 0..der.len() * 8 {
        let mut damaged = der.clone();
        damaged[n / 8] ^= 1 << (n % 8);
        let _ = (describe(&damaged), validity(&damaged));
        let cut = describe(&der[..n / 8]);
        assert_eq!(cut.error.as_deref(), Some("certificate does not parse"));
    }
    let mut numbers = Numbers(9);
    for _ in 0..20_000 {
        let mut damaged = der.clone();
        for _ in 0..=numbers.next(6) {
            let at = numbers.next(damaged.len());
            damaged[at] = numbers.next(256) as u8;
        }
        let found = describe(&damaged);
        assert!(found.subject.len() <= 4096 && found.sans.len() <= 65_536);
        let random: Vec<u8> = (0..80).map(|_| numbers.next(256) as u8).collect();
        assert!(describe(&random).error.is_some());
    }
}
