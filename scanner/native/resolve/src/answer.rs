//! Reads a message as an answer: status, chain of aliases, records. No I/O, no clock.

use crate::status::Status;
use crate::wire::Malformed;
use crate::wire::message::{Echo, Header, Place, Sections, compare_question};
use crate::wire::name::Name;
use crate::wire::query::HEADER;
use crate::wire::record::{Record, whole_name};
use crate::wire::types::{CNAME, QType};

/// A chain with more aliases counts as a loop (BIND stops at 16).
pub const MOST_ALIASES: usize = 16;
/// Maximum number of records kept from an answer (BIND's max-records-per-type). Each record becomes a row,
/// and each address a target.
pub const MOST_RECORDS: usize = 100;

/// One CNAME record: the target as text, and the TTL in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    pub target: String,
    pub ttl: u32,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    pub status: Status,
    /// Extended RCODE: the header's RCODE with the upper bits from EDNS.
    pub rcode: u16,
    pub aliases: Vec<Alias>,
    /// In the order of the answer.
    pub records: Vec<Record>,
    /// Records beyond [`MOST_RECORDS`].
    pub left_out: u16,
    /// The lowest TTL of the records (RFC 2181 5.2).
    pub ttl: Option<u32>,
    /// The next name to query, if the answer stops at an alias that the resolver did not follow.
    pub unfinished: Option<Box<Name>>,
    /// Extended errors, and a note about bytes after the message.
    pub detail: Option<String>,
}

/// How a message relates to a question.
#[derive(Debug, PartialEq, Eq)]
pub enum Reading {
    /// Answers the question.
    Answer(DnsAnswer),
    /// Truncated. TCP gives the whole message (RFC 2181 9).
    Truncated,
    /// Repeats the name with other upper and lower case.
    OtherCase,
    /// Answers another question, or is not a response.
    Foreign,
    Malformed(Malformed),
}

/// A question that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The name as it was sent.
    pub name: &'a Name,
    pub qtype: QType,
    /// Whether the answer must repeat upper and lower case exactly.
    pub exact: bool,
    pub tcp: bool,
}

/// Reads a message with the id of the question. `sections` is only scratch memory.
pub fn read(message: &[u8], asked: Asked<'_>, sections: &mut Sections) -> Reading {
    try_read(message, asked, sections).unwrap_or_else(Reading::Malformed)
}

fn try_read(
    message: &[u8],
    asked: Asked<'_>,
    sections: &mut Sections,
) -> Result<Reading, Malformed> {
    let header = Header::read(message)?;
    if !header.is_response() {
        return Ok(Reading::Foreign);
    }
    let qtype = asked.qtype.code();
    let records_at = match compare_question(message, &header, asked.name, qtype)? {
        Echo::Same(end) => end,
        Echo::OtherCase(end) if !asked.exact => end,
        Echo::OtherCase(_) => return Ok(Reading::OtherCase),
        Echo::Missing if matches!(header.rcode(), 1 | 2 | 4 | 5) => HEADER,
        Echo::Missing | Echo::Other => return Ok(Reading::Foreign),
    };
    if header.is_truncated() && !asked.tcp {
        return Ok(Reading::Truncated);
    }
    sections.read(message, header.counts, records_at)?;
    follow(message, asked, &header, sections).map(Reading::Answer)
}

/// Follows the aliases of the answer section (RFC 1034 3.6.2) to the requested records.
fn follow(
    message: &[u8],
    asked: Asked<'_>,
    header: &Header,
    sections: &Sections,
) -> Result<DnsAnswer, Malformed> {
    let rcode = header.rcode() | sections.edns.upper_rcode;
    let mut answer = DnsAnswer {
        status: Status::NoData,
        rcode,
        aliases: Vec::new(),
        records: Vec::new(),
        left_out: 0,
        ttl: None,
        unfinished: None,
        detail: detail(sections),
    };
    let mut name = *asked.name;
    let mut passed = Vec::new();
    loop {
        take_records(message, asked.qtype, &name, sections, &mut answer)?;
        if !answer.records.is_empty() {
            break;
        }
        let Some((target, ttl)) = alias(message, &name, sections)? else {
            break;
        };
        passed.push(std::mem::replace(&mut name, target));
        answer.aliases.push(Alias {
            target: name.text(),
            ttl,
        });
        if passed.contains(&name) || answer.aliases.len() > MOST_ALIASES {
            answer.status = Status::Chain;
            return Ok(answer);
        }
    }
    if rcode != 0 {
        answer.status = Status::of_rcode(rcode);
        answer.records.clear();
        (answer.left_out, answer.ttl) = (0, None);
    } else if !answer.records.is_empty() {
        answer.status = Status::NoError;
    } else if !answer.aliases.is_empty() && !sections.has_soa {
        // An SOA record shows that the name at the end of the chain has no record of this type (RFC 2308
        // 2.2).
        answer.unfinished = Some(Box::new(name));
    } else if sections.has_ns && !sections.has_soa && !header.is_authoritative() {
        // NS records without an SOA record are a referral, not an answer (RFC 2308 2.2).
        answer.status = Status::Referral;
    }
    Ok(answer)
}

/// Returns the extended errors, and a note about bytes after the message.
fn detail(sections: &Sections) -> Option<String> {
    let behind =
        (sections.behind > 0).then(|| format!("{} bytes follow the message", sections.behind));
    let parts: Vec<String> = sections.edns.errors.iter().cloned().chain(behind).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the records of class IN and type `kind` that `name` owns.
fn owned<'a>(
    message: &'a [u8],
    name: &'a Name,
    kind: u16,
    sections: &'a Sections,
) -> impl Iterator<Item = Result<Place, Malformed>> + 'a {
    let places = sections
        .answers
        .iter()
        .filter(move |place| place.kind == kind);
    places.filter_map(move |place| match Name::read(message, place.owner) {
        Ok((owner, _)) if owner == *name => Some(Ok(*place)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

fn take_records(
    message: &[u8],
    qtype: QType,
    name: &Name,
    sections: &Sections,
    answer: &mut DnsAnswer,
) -> Result<(), Malformed> {
    for place in owned(message, name, qtype.code(), sections) {
        let place = place?;
        answer.ttl = Some(answer.ttl.map_or(place.ttl, |ttl| ttl.min(place.ttl)));
        if answer.records.len() == MOST_RECORDS {
            answer.left_out = answer.left_out.saturating_add(1);
            continue;
        }
        let record = Record::read(message, qtype, place.data, place.end)?;
        // A repeated record counts once (RFC 2181 5).
        if !answer.records.contains(&record) {
            answer.records.push(record);
        }
    }
    Ok(())
}

/// Returns the target of the first alias of `name`, with the lowest TTL of all aliases of `name`.
fn alias(
    message: &[u8],
    name: &Name,
    sections: &Sections,
) -> Result<Option<(Name, u32)>, Malformed> {
    let mut found: Option<(Name, u32)> = None;
    for place in owned(message, name, CNAME, sections) {
        let place = place?;
        let target = whole_name(message, place.data, place.end)?;
        found = match found {
            Some((first, ttl)) => Some((first, ttl.min(place.ttl))),
            None => Some((target, place.ttl)),
        };
    }
    Ok(found)
}

#[cfg(test)]
pub mod tests;
