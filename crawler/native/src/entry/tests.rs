//! Tests that find the prefix and the first route in given records.

use std::net::IpAddr;

use crate::attributes::AsWidth;
use crate::records::Record;

use super::{first, is_unicast};

const OLD: u16 = 12;
const NEW: u16 = 13;

fn record(kind: u16, subtype: u16, body: &[u8]) -> Record<'_> {
    Record {
        offset: 0,
        timestamp: 0,
        kind,
        subtype,
        body,
    }
}

/// Address, bits, attributes, their stated length, width of AS numbers.
type Found = (IpAddr, u8, Vec<u8>, usize, AsWidth);

fn found(record: &Record) -> Result<Found, &'static str> {
    let entry = first(record)?;
    let (address, bits) = entry.prefix;
    let attributes = entry.attributes.to_vec();
    Ok((
        address,
        bits,
        attributes,
        entry.attribute_bytes,
        entry.width,
    ))
}

/// A record of TABLE_DUMP: view and sequence, prefix, bits, status, time, peer, AS, attributes.
fn old(address: &[u8], bits: u8, status: u8, attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 1];
    body.extend(address);
    body.extend([bits, status, 0, 0, 0, 0]);
    body.extend(vec![9; address.len()]);
    body.extend([0, 7, 0, attributes.len() as u8]);
    body.extend(attributes);
    body
}

/// The same route with a path identifier.
fn with_id(bits: u8, octets: &[u8], attributes: &[u8]) -> Vec<u8> {
    let mut body = new(bits, octets, attributes.len() as u8, attributes);
    let length_at = body.len() - attributes.len() - 2;
    body.splice(length_at..length_at, [0, 0, 0, 7]);
    body
}

/// The same route in a generic record.
fn in_family(afi: u8, safi: u8, body: Vec<u8>) -> Vec<u8> {
    let mut generic = body;
    generic.splice(4..4, [0, afi, safi]);
    generic
}

/// A record of TABLE_DUMP_V2 with one route.
fn new(bits: u8, octets: &[u8], stated: u8, attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 1, bits];
    body.extend(octets);
    body.extend([0, 1, 0, 0, 0, 0, 0, 0, 0, stated]);
    body.extend(attributes);
    body
}

#[test]
fn only_unicast_records_are_read() {
    let cases = [
        (OLD, 0, false),
        (OLD, 1, true),
        (OLD, 2, true),
        (OLD, 3, false),
        (NEW, 1, false),
        (NEW, 2, true),
        (NEW, 3, false),
        (NEW, 4, true),
        (NEW, 5, false),
        (NEW, 7, false),
        (NEW, 8, true),
        (NEW, 9, false),
        (NEW, 10, true),
        (NEW, 11, false),
    ];
    for (kind, subtype, expected) in cases {
        let record = record(kind, subtype, &[]);
        assert_eq!(is_unicast(&record), expected, "{kind}.{subtype}");
    }
    for subtype in [6, 12] {
        for (afi, safi, expected) in [
            (1, 1, true),
            (2, 1, true),
            (1, 2, false),
            (2, 128, false),
            (25, 1, false),
        ] {
            let body = in_family(afi, safi, new(8, &[10], 0, &[]));
            let record = record(NEW, subtype, &body);
            assert_eq!(is_unicast(&record), expected, "{subtype} {afi} {safi}");
        }
    }
}

#[test]
fn prefix_and_first_route() {
    let v6: Vec<u8> = (1..=16).collect();
    let (four, six): ([u8; 4], [u8; 16]) = ([192, 0, 2, 0], v6.clone().try_into().unwrap());
    let cut = [192, 0, 2];
    let cases = [
        (
            (OLD, 1, old(&four, 32, 1, &[5])),
            (IpAddr::from(four), 32, vec![5], 1, AsWidth::Two),
        ),
        (
            (OLD, 2, old(&six, 128, 1, &[])),
            (IpAddr::from(six), 128, vec![], 0, AsWidth::Two),
        ),
        (
            (NEW, 2, new(24, &cut, 1, &[5])),
            (IpAddr::from(four), 24, vec![5], 1, AsWidth::Four),
        ),
        (
            (NEW, 2, new(0, &[], 0, &[])),
            ("0.0.0.0".parse().unwrap(), 0, vec![], 0, AsWidth::Four),
        ),
        (
            (NEW, 2, new(17, &cut, 0, &[])),
            ("192.0.0.0".parse().unwrap(), 17, vec![], 0, AsWidth::Four),
        ),
        (
            (NEW, 4, new(128, &v6, 0, &[])),
            (IpAddr::from(six), 128, vec![], 0, AsWidth::Four),
        ),
        // Bits after the prefix.
        (
            (OLD, 1, old(&[255; 4], 23, 1, &[])),
            (
                "255.255.254.0".parse().unwrap(),
                23,
                vec![],
                0,
                AsWidth::Two,
            ),
        ),
        (
            (OLD, 2, old(&[255; 16], 33, 1, &[])),
            (
                "ffff:ffff:8000::".parse().unwrap(),
                33,
                vec![],
                0,
                AsWidth::Two,
            ),
        ),
        (
            (OLD, 1, old(&four, 0, 1, &[])),
            ("0.0.0.0".parse().unwrap(), 0, vec![], 0, AsWidth::Two),
        ),
        // Additional paths (RFC 8050 4.1), and generic records.
        (
            (NEW, 8, with_id(24, &cut, &[5])),
            (IpAddr::from(four), 24, vec![5], 1, AsWidth::Four),
        ),
        (
            (NEW, 10, with_id(128, &v6, &[5])),
            (IpAddr::from(six), 128, vec![5], 1, AsWidth::Four),
        ),
        (
            (NEW, 6, in_family(1, 1, new(24, &cut, 1, &[5]))),
            (IpAddr::from(four), 24, vec![5], 1, AsWidth::Four),
        ),
        (
            (NEW, 6, in_family(2, 1, new(128, &v6, 1, &[5]))),
            (IpAddr::from(six), 128, vec![5], 1, AsWidth::Four),
        ),
        // Fewer bytes than stated are kept, with the stated length. Further routes are ignored.
        (
            (NEW, 2, new(24, &cut, 4, &[5])),
            (IpAddr::from(four), 24, vec![5], 4, AsWidth::Four),
        ),
        (
            (NEW, 2, new(24, &cut, 1, &[5, 6])),
            (IpAddr::from(four), 24, vec![5], 1, AsWidth::Four),
        ),
    ];
    for ((kind, subtype, body), expected) in cases {
        let record = record(kind, subtype, &body);
        assert_eq!(found(&record), Ok(expected), "{kind}.{subtype} {body:?}");
    }
}

#[test]
fn damaged_records_are_refused() {
    const LONG: &str = "its prefix is longer than an address";
    let mut no_route = new(0, &[], 0, &[]);
    no_route[6] = 0;
    let cases = [
        (OLD, 1, old(&[1; 4], 33, 1, &[]), LONG),
        (OLD, 2, old(&[1; 16], 129, 1, &[]), LONG),
        (OLD, 1, old(&[1; 4], 8, 0, &[]), "its status is not 1"),
        (OLD, 1, old(&[1; 4], 8, 2, &[]), "its status is not 1"),
        (NEW, 2, new(33, &[1; 5], 0, &[]), LONG),
        (NEW, 4, new(129, &[1; 17], 0, &[]), LONG),
        (NEW, 2, no_route, "it has no route"),
        (
            NEW,
            12,
            in_family(1, 1, with_id(8, &[10], &[])),
            "additional paths in RIB_GENERIC_ADDPATH are written in two ways, which cannot be told apart",
        ),
    ];
    for (kind, subtype, body, expected) in cases {
        let record = record(kind, subtype, &body);
        assert_eq!(found(&record), Err(expected), "{kind}.{subtype} {body:?}");
    }
}

#[test]
fn records_that_are_cut_anywhere_are_refused() {
    let whole = [
        (OLD, 1, old(&[1; 4], 8, 1, &[])),
        (OLD, 2, old(&[1; 16], 8, 1, &[])),
        (NEW, 2, new(24, &[1; 3], 0, &[])),
        (NEW, 4, new(48, &[1; 6], 0, &[])),
        (NEW, 6, in_family(1, 1, new(24, &[1; 3], 0, &[]))),
        (NEW, 8, with_id(24, &[1; 3], &[])),
        (NEW, 10, with_id(48, &[1; 6], &[])),
    ];
    for (kind, subtype, body) in &whole {
        assert!(found(&record(*kind, *subtype, body)).is_ok());
        for end in 0..body.len() {
            let cut = record(*kind, *subtype, &body[..end]);
            assert!(found(&cut).is_err(), "{kind}.{subtype} cut to {end}");
        }
    }
}
