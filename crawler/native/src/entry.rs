//! A RIB record's prefix and the attributes of the first route (RFC 6396 4.2 and 4.3; RFC 8050 4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::attributes::AsWidth;
use crate::records::{Record, TABLE_DUMP};

const AFI_IPV4: u16 = 1;
const AFI_IPV6: u16 = 2;
const RIB_IPV4_UNICAST: u16 = 2;
const RIB_IPV6_UNICAST: u16 = 4;
const RIB_GENERIC: u16 = 6;
const RIB_IPV4_UNICAST_ADDPATH: u16 = 8;
const RIB_IPV6_UNICAST_ADDPATH: u16 = 10;
const RIB_GENERIC_ADDPATH: u16 = 12;
const SAFI_UNICAST: u8 = 1;

/// The address and the prefix length in bits of a network. Bits after the prefix are always 0, whatever the table
/// contains, so that a network has only one representation.
pub type Prefix = (IpAddr, u8);

/// A record's first route.
pub struct Entry<'a> {
    pub prefix: Prefix,
    /// The bytes after the length field of the attributes; may be shorter or longer than that length.
    pub attributes: &'a [u8],
    pub attribute_bytes: usize,
    pub width: AsWidth,
}

/// Whether the record contains routes of unicast prefixes.
pub fn is_unicast(record: &Record) -> bool {
    match record.kind {
        TABLE_DUMP => matches!(record.subtype, AFI_IPV4 | AFI_IPV6),
        _ => match record.subtype {
            RIB_IPV4_UNICAST | RIB_IPV6_UNICAST => true,
            RIB_IPV4_UNICAST_ADDPATH | RIB_IPV6_UNICAST_ADDPATH => true,
            RIB_GENERIC | RIB_GENERIC_ADDPATH => {
                let family = generic(record.body).map(|(family, _)| family);
                matches!(family, None | Some((AFI_IPV4 | AFI_IPV6, SAFI_UNICAST)))
            }
            _ => false,
        },
    }
}

/// Returns the address family (AFI and SAFI) in a RIB_GENERIC record (RFC 6396 4.3.3), and the rest.
fn generic(body: &[u8]) -> Option<((u16, u8), &[u8])> {
    let (&[_, _, _, _, high, low, safi], rest) = body.split_first_chunk::<7>()?;
    Some(((u16::from_be_bytes([high, low]), safi), rest))
}

fn after_sequence(body: &[u8]) -> Result<&[u8], &'static str> {
    body.get(4..).ok_or("it ends before its prefix")
}

/// Number of bytes in a route before the attributes: peer (2), time (4), path identifier if `has_id` (4; RFC 8050 4.1),
/// length of the attributes (2).
fn header_bytes(has_id: bool) -> usize {
    if has_id { 12 } else { 8 }
}

/// Returns a unicast record's first route, or the fault of the record. Ignores the routes of further peers.
pub fn first<'a>(record: &Record<'a>) -> Result<Entry<'a>, &'static str> {
    match (record.kind, record.subtype) {
        (TABLE_DUMP, AFI_IPV4) => old::<4>(record.body),
        (TABLE_DUMP, _) => old::<16>(record.body),
        (_, RIB_IPV4_UNICAST) => new::<4>(after_sequence(record.body)?, false),
        (_, RIB_IPV6_UNICAST) => new::<16>(after_sequence(record.body)?, false),
        (_, RIB_IPV4_UNICAST_ADDPATH) => new::<4>(after_sequence(record.body)?, true),
        (_, RIB_IPV6_UNICAST_ADDPATH) => new::<16>(after_sequence(record.body)?, true),
        (_, RIB_GENERIC) => match generic(record.body) {
            Some(((AFI_IPV4, _), rest)) => new::<4>(rest, false),
            Some((_, rest)) => new::<16>(rest, false),
            None => Err("it ends before its address family"),
        },
        // In the RFC the identifier is part of the prefix (4.2), but OpenBGPD and GoBGP write it as in other records.
        _ => Err(
            "additional paths in RIB_GENERIC_ADDPATH are written in two ways, which cannot be told apart",
        ),
    }
}

/// TABLE_DUMP (RFC 6396 4.2): view, sequence, prefix, prefix length, status, time, address and AS of the peer,
/// attributes.
fn old<const N: usize>(body: &[u8]) -> Result<Entry<'_>, &'static str> {
    const SHORT: &str = "it ends before its attributes";
    let (address, rest) = body
        .get(4..)
        .and_then(<[u8]>::split_first_chunk::<N>)
        .ok_or(SHORT)?;
    let (&[bits, status, ..], rest) = rest.split_first_chunk::<6>().ok_or(SHORT)?;
    let (&[_, _, high, low], attributes) = rest
        .get(N..)
        .and_then(<[u8]>::split_first_chunk::<4>)
        .ok_or(SHORT)?;
    if status != 1 {
        return Err("its status is not 1");
    }
    if usize::from(bits) > 8 * N {
        return Err("its prefix is longer than an address");
    }
    Ok(Entry {
        prefix: (network(address, bits), bits),
        attributes,
        attribute_bytes: u16::from_be_bytes([high, low]).into(),
        width: AsWidth::Two,
    })
}

/// The other records, from the prefix on: its length, its bytes, the number of routes, then each route (`header_bytes`)
/// with its attributes.
fn new<const N: usize>(body: &[u8], has_id: bool) -> Result<Entry<'_>, &'static str> {
    let (&bits, rest) = body.split_first().ok_or("it ends before its prefix")?;
    let octets = usize::from(bits).div_ceil(8);
    let mut address = [0; N];
    let into = address
        .get_mut(..octets)
        .filter(|_| usize::from(bits) <= 8 * N)
        .ok_or("its prefix is longer than an address")?;
    let (prefix, rest) = rest
        .split_at_checked(octets)
        .ok_or("it ends within its prefix")?;
    into.copy_from_slice(prefix);
    let (&routes, rest) = rest
        .split_first_chunk::<2>()
        .ok_or("it ends before its number of routes")?;
    if routes == [0, 0] {
        return Err("it has no route");
    }
    let (header, attributes) = rest
        .split_at_checked(header_bytes(has_id))
        .ok_or("it ends within its first route")?;
    let &[.., high, low] = header else {
        return Err("it ends within its first route");
    };
    let attribute_bytes = u16::from_be_bytes([high, low]).into();
    Ok(Entry {
        prefix: (network(&address, bits), bits),
        attributes: &attributes[..attributes.len().min(attribute_bytes)],
        attribute_bytes,
        width: AsWidth::Four,
    })
}

/// Returns the address with all bits after the prefix set to 0. `bits` is at most 8 * N.
fn network<const N: usize>(address: &[u8; N], bits: u8) -> IpAddr {
    let mut masked = *address;
    let whole = usize::from(bits / 8);
    for (place, byte) in masked.iter_mut().enumerate().skip(whole) {
        let kept = if place == whole { bits % 8 } else { 0 };
        *byte &= !(0xff_u8 >> kept);
    }
    ip(&masked)
}

fn ip<const N: usize>(bytes: &[u8; N]) -> IpAddr {
    match bytes.first_chunk::<16>() {
        Some(all) => IpAddr::V6(Ipv6Addr::from(*all)),
        None => {
            let mut four = [0; 4];
            four.copy_from_slice(&bytes[..4]);
            IpAddr::V4(Ipv4Addr::from(four))
        }
    }
}

#[cfg(test)]
mod tests;
