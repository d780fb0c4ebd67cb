//! The prefix of a RIB record and the attributes of its first route (RFC 6396 4.2 and 4.3.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::attributes::AsWidth;
use crate::records::{Record, TABLE_DUMP};

const AFI_IPV4: u16 = 1;
const AFI_IPV6: u16 = 2;
const RIB_IPV4_UNICAST: u16 = 2;
const RIB_IPV6_UNICAST: u16 = 4;

/// An address as the table has it (bits behind the prefix may be set), and the length of its prefix in bits.
pub type Prefix = (IpAddr, u8);

/// The first route of a record.
pub struct Entry<'a> {
    pub prefix: Prefix,
    /// What follows the length of the attributes; may be shorter or longer than that.
    pub attributes: &'a [u8],
    pub attribute_bytes: usize,
    pub width: AsWidth,
}

/// Whether the record holds routes of unicast prefixes.
pub fn is_unicast(record: &Record) -> bool {
    match record.kind {
        TABLE_DUMP => matches!(record.subtype, AFI_IPV4 | AFI_IPV6),
        _ => matches!(record.subtype, RIB_IPV4_UNICAST | RIB_IPV6_UNICAST),
    }
}

/// The first route of a unicast record, or what is wrong with it. Routes of further peers are not looked at.
pub fn first<'a>(record: &Record<'a>) -> Result<Entry<'a>, &'static str> {
    match (record.kind, record.subtype) {
        (TABLE_DUMP, AFI_IPV4) => old::<4>(record.body),
        (TABLE_DUMP, _) => old::<16>(record.body),
        (_, RIB_IPV4_UNICAST) => new::<4>(record.body),
        _ => new::<16>(record.body),
    }
}

/// TABLE_DUMP (RFC 6396 4.2): view, sequence, prefix, its length, status, time, peer's address and AS,
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
        prefix: (ip(address), bits),
        attributes,
        attribute_bytes: u16::from_be_bytes([high, low]).into(),
        width: AsWidth::Two,
    })
}

/// RIB_IPV4_UNICAST and RIB_IPV6_UNICAST (RFC 6396 4.3.2): sequence, length of the prefix, its bytes, number
/// of routes; then of each its peer, time and attributes.
fn new<const N: usize>(body: &[u8]) -> Result<Entry<'_>, &'static str> {
    let (&[_, _, _, _, bits], rest) = body
        .split_first_chunk::<5>()
        .ok_or("it ends before its prefix")?;
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
    let (&[_, _, _, _, _, _, high, low], attributes) = rest
        .split_first_chunk::<8>()
        .ok_or("it ends within its first route")?;
    Ok(Entry {
        prefix: (ip(&address), bits),
        attributes: &attributes[..attributes.len().min(u16::from_be_bytes([high, low]).into())],
        attribute_bytes: u16::from_be_bytes([high, low]).into(),
        width: AsWidth::Four,
    })
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
