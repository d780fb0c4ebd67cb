//! A message's parts (RFC 1035 4.1): header, question, and positions of the records.

use super::edns::Edns;
use super::name::Name;
use super::query::HEADER;
use super::types::{IN, NS, OPT, SOA};
use super::{Malformed, Reader};

/// A header (RFC 1035 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub id: u16,
    flags: u16,
    /// Counts of questions, answers, authority records and additional records.
    pub counts: [u16; 4],
}

impl Header {
    /// Reads the header.
    pub fn read(message: &[u8]) -> Result<Header, Malformed> {
        let short = Malformed("the message is shorter than a header");
        let mut reader = Reader(message.get(..HEADER).ok_or(short)?);
        let (id, flags) = (reader.u16()?, reader.u16()?);
        let mut counts = [0; 4];
        for count in &mut counts {
            *count = reader.u16()?;
        }
        Ok(Header { id, flags, counts })
    }

    /// Returns whether it is a response to a standard query.
    pub fn is_response(&self) -> bool {
        self.flags & 0x8000 != 0 && self.flags & 0x7800 == 0
    }

    /// Returns whether the message is truncated (TC).
    pub fn is_truncated(&self) -> bool {
        self.flags & 0x0200 != 0
    }

    /// Returns whether the server is an authority for the name (AA).
    pub fn is_authoritative(&self) -> bool {
        self.flags & 0x0400 != 0
    }

    /// Returns the lower four bits of the response code.
    pub fn rcode(&self) -> u16 {
        self.flags & 0xf
    }
}

/// A record's position in the message.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Position of the owner name.
    pub owner: usize,
    pub kind: u16,
    pub ttl: u32,
    pub data: usize,
    pub end: usize,
}

/// A message's records. The value is reused between messages, so that reading does not allocate.
#[derive(Debug, Default)]
pub struct Sections {
    /// Records of class IN in the answer section.
    pub answers: Vec<Place>,
    /// Whether the authority section holds an SOA record.
    pub has_soa: bool,
    /// Whether the authority section holds an NS record.
    pub has_ns: bool,
    /// Number of bytes after the last record, which are not part of the message (RFC 1035 4.1).
    pub behind: usize,
    pub edns: Edns,
}

impl Sections {
    /// Finds the records of `message`, from `at`, where the questions end. Counts the bytes after the last record.
    pub fn read(
        &mut self,
        message: &[u8],
        counts: [u16; 4],
        mut at: usize,
    ) -> Result<(), Malformed> {
        self.answers.clear();
        (self.has_soa, self.has_ns, self.edns) = (false, false, Edns::default());
        let mut has_edns = false;
        for (section, count) in counts.into_iter().enumerate().skip(1) {
            for _ in 0..count {
                let (place, class) = place(message, at)?;
                at = place.end;
                match (section, place.kind) {
                    (1, _) if class == IN => self.answers.push(place),
                    (2, SOA) => self.has_soa = true,
                    (2, NS) => self.has_ns = true,
                    (3, OPT) => {
                        // RFC 6891 6.1.1: at most one OPT record, and its owner is the root.
                        if std::mem::replace(&mut has_edns, true)
                            || message.get(place.owner) != Some(&0)
                        {
                            return Err(Malformed("the message has more than one OPT record"));
                        }
                        self.edns = Edns::read(place.ttl, &message[place.data..place.end])?;
                    }
                    _ => {}
                }
            }
        }
        self.behind = message.len() - at;
        Ok(())
    }
}

/// Returns the position and class of the record at `at`.
fn place(message: &[u8], at: usize) -> Result<(Place, u16), Malformed> {
    let cut = Malformed("a record is cut off");
    let name_end = Name::skip(message, at)?;
    let mut fixed = Reader(message.get(name_end..).ok_or(cut)?);
    let (kind, class) = (fixed.u16()?, fixed.u16()?);
    let ttl = u32::from(fixed.u16()?) << 16 | u32::from(fixed.u16()?);
    let length = usize::from(fixed.u16()?);
    let data = name_end + 10;
    let end = data + length;
    if end > message.len() {
        return Err(cut);
    }
    Ok((
        Place {
            owner: at,
            kind,
            ttl,
            data,
            end,
        },
        class,
    ))
}

/// Comparison of an answer's question with the question that was sent (RFC 5452 9.1, 0x20 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Identical bytes. The records start at this position.
    Same(usize),
    /// Different only in upper and lower case.
    OtherCase(usize),
    /// No question. Some servers send this with FORMERR or similar codes.
    Missing,
    /// Another question.
    Other,
}

/// Compares the question of `message` with the name and type that were sent.
pub fn compare_question(
    message: &[u8],
    header: &Header,
    asked: &Name,
    qtype: u16,
) -> Result<Echo, Malformed> {
    match header.counts[0] {
        0 => return Ok(Echo::Missing),
        1 => {}
        _ => return Err(Malformed("the answer has more than one question")),
    }
    let name = asked.as_bytes();
    let end = HEADER + name.len() + 4;
    let same_type = |bytes: &&[u8]| {
        let fixed = &bytes[name.len()..];
        fixed[..2] == qtype.to_be_bytes() && fixed[2..] == IN.to_be_bytes()
    };
    let echoed = message.get(HEADER..end).filter(same_type);
    match echoed {
        Some(bytes) if bytes[..name.len()] == *name => Ok(Echo::Same(end)),
        Some(bytes) if bytes[..name.len()].eq_ignore_ascii_case(name) => Ok(Echo::OtherCase(end)),
        _ => {
            let (_, after) = Name::read(message, HEADER)?;
            message
                .get(after..after + 4)
                .ok_or(Malformed("the question is cut off"))?;
            Ok(Echo::Other)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &[u8] = b"\x01a\x04tEst\0\0\x01\0\x01";

    fn message(flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
        let mut message = vec![0x12, 0x34];
        message.extend(flags.to_be_bytes());
        for count in counts {
            message.extend(count.to_be_bytes());
        }
        [&message, rest].concat()
    }

    #[test]
    fn questions_are_compared_byte_for_byte() {
        let asked = Name::from_text("a.tEst").unwrap();
        for (count, question, expected) in [
            (1, QUESTION, Ok(Echo::Same(24))),
            (1, b"\x01A\x04test\0\0\x01\0\x01", Ok(Echo::OtherCase(24))),
            (1, b"\x01b\x04tEst\0\0\x01\0\x01", Ok(Echo::Other)),
            (1, b"\x01a\x04tEst\0\0\x1c\0\x01", Ok(Echo::Other)),
            (1, b"\x01a\x04tEst\0\0\x01\0\x03", Ok(Echo::Other)),
            (0, b"", Ok(Echo::Missing)),
            (
                2,
                QUESTION,
                Err(Malformed("the answer has more than one question")),
            ),
            (
                1,
                b"\x01a\x04tEst\0\0\x01\0",
                Err(Malformed("the question is cut off")),
            ),
            (
                1,
                b"\xff\xff",
                Err(Malformed("a pointer in a name does not lead back")),
            ),
        ] {
            let bytes = message(0x8180, [count, 0, 0, 0], question);
            let header = Header::read(&bytes).unwrap();
            assert_eq!(
                compare_question(&bytes, &header, &asked, 1),
                expected,
                "{question:?}"
            );
        }
    }

    #[test]
    fn flags() {
        for (flags, response, truncated, rcode) in [
            (0x8180, true, false, 0),
            (0x8382, true, true, 2),
            (0x0100, false, false, 0),
            (0xa000, false, false, 0),
        ] {
            let header = Header::read(&message(flags, [0; 4], b"")).unwrap();
            let found = (header.is_response(), header.is_truncated(), header.rcode());
            assert_eq!(found, (response, truncated, rcode));
        }
        assert!(Header::read(&[0; 11]).is_err());
    }

    #[test]
    fn sections_are_read_to_the_last_byte() {
        const A: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc6\x12\0\x01";
        const OPT: &[u8] = b"\0\0\x29\x04\xd0\x01\0\0\0\0\x06\0\x0f\0\x02\0\x16";
        let soa = b"\0\0\x06\0\x01\0\0\0\0\0\0";
        let rest = [QUESTION, A, soa, OPT].concat();
        let whole = message(0x8180, [1, 1, 1, 1], &rest);
        let read = |bytes: &[u8]| {
            let mut sections = Sections::default();
            let header = Header::read(bytes)?;
            sections.read(bytes, header.counts, 24)?;
            Ok::<_, Malformed>(sections)
        };
        let sections = read(&whole).unwrap();
        assert_eq!((sections.answers.len(), sections.has_soa), (1, true));
        assert_eq!(
            (sections.answers[0].ttl, sections.edns.upper_rcode),
            (60, 16)
        );
        assert_eq!(sections.edns.errors.as_deref(), Some("EDE 22"));
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
        let followed = read(&[&whole[..], b"behind"].concat()).unwrap();
        assert_eq!((sections.behind, followed.behind), (0, 6));
        assert_eq!(followed.answers.len(), 1);
        let twice = [QUESTION, OPT, OPT].concat();
        assert!(read(&message(0x8180, [1, 0, 0, 2], &twice)).is_err());
    }
}
