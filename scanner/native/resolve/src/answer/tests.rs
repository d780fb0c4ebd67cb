//! Tests of reading answers, and a writer of messages for them.

use super::*;
use crate::wire::name::Name;

/// A message that is being written, without name compression.
pub struct Writer {
    counts: [u16; 4],
    flags: u16,
    question: Vec<u8>,
    sections: [Vec<u8>; 3],
}

fn wire(name: &str) -> Vec<u8> {
    Name::from_text(name).unwrap().as_bytes().to_vec()
}

impl Writer {
    /// Returns an answer with `rcode` to the question for `name` and `qtype`.
    pub fn answer(name: &str, qtype: QType, rcode: u16) -> Writer {
        let mut question = wire(name);
        question.extend(qtype.code().to_be_bytes());
        question.extend([0, 1]);
        Writer {
            counts: [1, 0, 0, 0],
            flags: 0x8180 | rcode,
            question,
            sections: Default::default(),
        }
    }

    /// Toggles flags.
    pub fn flags(mut self, flags: u16) -> Writer {
        self.flags ^= flags;
        self
    }

    /// Removes the question.
    pub fn without_question(mut self) -> Writer {
        (self.counts[0], self.question) = (0, Vec::new());
        self
    }

    /// Adds a record to section 1, 2 or 3.
    pub fn record(
        mut self,
        section: usize,
        owner: &str,
        kind: u16,
        ttl: u32,
        data: &[u8],
    ) -> Writer {
        self.counts[section] += 1;
        let to = &mut self.sections[section - 1];
        to.extend(wire(owner));
        to.extend(kind.to_be_bytes());
        to.extend([0, 1]);
        to.extend(ttl.to_be_bytes());
        to.extend((data.len() as u16).to_be_bytes());
        to.extend(data);
        self
    }

    pub fn alias(self, owner: &str, target: &str, ttl: u32) -> Writer {
        self.record(1, owner, CNAME, ttl, &wire(target))
    }

    pub fn bytes(&self, id: u16) -> Vec<u8> {
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend(self.flags.to_be_bytes());
        for count in self.counts {
            bytes.extend(count.to_be_bytes());
        }
        bytes.extend(&self.question);
        for section in &self.sections {
            bytes.extend(section);
        }
        bytes
    }
}

fn read_as(message: &[u8], name: &str, qtype: QType, exact: bool, tcp: bool) -> Reading {
    let name = Name::from_text(name).unwrap();
    read(
        message,
        Asked {
            name: &name,
            qtype,
            exact,
            tcp,
        },
        &mut Sections::default(),
    )
}

fn answer(writer: Writer) -> DnsAnswer {
    match read_as(&writer.bytes(7), "a.test", QType::A, true, false) {
        Reading::Answer(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn to_a(rcode: u16) -> Writer {
    Writer::answer("a.test", QType::A, rcode)
}

#[test]
fn records_come_once_in_order_with_their_lowest_ttl() {
    let found = answer(
        to_a(0)
            .record(1, "A.TEST", 1, 60, &[198, 18, 0, 2])
            .record(1, "other.test", 1, 5, &[198, 18, 0, 9])
            .record(1, "a.test", 1, 30, &[198, 18, 0, 1])
            .record(1, "a.test", 1, 90, &[198, 18, 0, 2]),
    );
    let addresses = ["198.18.0.2", "198.18.0.1"].map(|ip| Record::Address(ip.parse().unwrap()));
    assert_eq!((found.status, found.ttl), (Status::NoError, Some(30)));
    assert_eq!(found.records, addresses);
}

#[test]
fn an_answer_has_so_many_records_and_counts_the_others() {
    for (given, kept, left_out) in [(100, 100, 0), (101, 100, 1), (3000, 100, 2900)] {
        let of = |writer: Writer, n: u32| writer.record(1, "a.test", 1, 60, &n.to_be_bytes());
        let found = answer((1..=given).fold(to_a(0), of));
        assert_eq!(found.records.len(), kept, "{given}");
        assert_eq!((found.left_out, found.status), (left_out, Status::NoError));
    }
}

/// Response flags for [`Writer::flags`].
const AA: u16 = 0x0400;
const RA: u16 = 0x0080;

#[test]
fn a_referral_is_no_answer() {
    let ns = |writer: Writer| writer.record(2, "test", 2, 60, &wire("ns.test"));
    let soa = |writer: Writer| writer.record(2, "test", 6, 60, b"");
    for (writer, expected) in [
        (ns(to_a(0).flags(RA)), Status::Referral),
        (ns(to_a(0)), Status::Referral),
        (
            to_a(0).record(2, ".", 2, 60, &wire("a.test")),
            Status::Referral,
        ),
        (ns(to_a(0).flags(AA)), Status::NoData),
        (soa(ns(to_a(0))), Status::NoData),
        (soa(to_a(0)), Status::NoData),
        (to_a(0), Status::NoData),
        (ns(to_a(3)), Status::NxDomain),
        (ns(to_a(5)), Status::Refused),
    ] {
        let message = writer.bytes(7);
        assert_eq!(answer(writer).status, expected, "{message:02x?}");
    }
    let with = ns(to_a(0)).record(1, "a.test", 1, 60, &[198, 18, 0, 1]);
    assert_eq!(answer(with).status, Status::NoError);
    let alias = answer(ns(to_a(0)).alias("a.test", "b.test", 5));
    assert!(
        alias.unfinished.is_some(),
        "the target of the alias is queried"
    );
}

#[test]
fn bytes_behind_a_message_cost_no_answer() {
    let whole = to_a(0).record(1, "a.test", 1, 60, &[198, 18, 0, 1]);
    let with_error = to_a(0).record(1, "a.test", 1, 60, &[198, 18, 0, 1]).record(
        3,
        ".",
        41,
        0,
        b"\0\x0f\0\x02\0\x17",
    );
    for (writer, behind, detail) in [
        (&whole, &b""[..], None),
        (&whole, b"\0", Some("1 bytes follow the message")),
        (
            &with_error,
            &[0xff; 300],
            Some("EDE 23; 300 bytes follow the message"),
        ),
    ] {
        let message = [&writer.bytes(7)[..], behind].concat();
        let read = read_as(&message, "a.test", QType::A, true, false);
        let Reading::Answer(found) = read else {
            panic!("{read:?}");
        };
        assert_eq!((found.status, found.records.len()), (Status::NoError, 1));
        assert_eq!(found.detail.as_deref(), detail);
    }
}

#[test]
fn aliases_are_followed_in_the_answer() {
    let chain = |writer: Writer| {
        writer
            .alias("b.test", "c.test", 20)
            .alias("a.test", "B.test", 10)
    };
    let whole = answer(chain(to_a(0)).record(1, "c.test", 1, 5, &[198, 18, 0, 1]));
    let targets: Vec<_> = whole
        .aliases
        .iter()
        .map(|alias| (alias.target.as_str(), alias.ttl))
        .collect();
    assert_eq!(targets, [("b.test", 10), ("c.test", 20)]);
    assert_eq!((whole.status, whole.unfinished), (Status::NoError, None));
    let unfinished = answer(chain(to_a(0)));
    assert_eq!(unfinished.status, Status::NoData);
    assert_eq!(
        unfinished.unfinished.map(|name| name.text()).as_deref(),
        Some("c.test")
    );
    let none = answer(chain(to_a(0)).record(2, "test", 6, 5, b""));
    assert_eq!((none.status, none.unfinished), (Status::NoData, None));
    let dead_end = answer(chain(to_a(3)));
    assert_eq!(
        (dead_end.status, dead_end.aliases.len()),
        (Status::NxDomain, 2)
    );
    let looped = answer(chain(to_a(0)).alias("c.test", "A.test", 1));
    assert_eq!((looped.status, looped.aliases.len()), (Status::Chain, 3));
    let long = (0..20).fold(to_a(0).alias("a.test", "n0.test", 1), |writer, n| {
        writer.alias(&format!("n{n}.test"), &format!("n{}.test", n + 1), 1)
    });
    assert_eq!(answer(long).status, Status::Chain);
}

#[test]
fn response_codes_with_their_edns_bits() {
    for (rcode, upper, expected) in [
        (0, 0, Status::NoData),
        (2, 0, Status::ServFail),
        (5, 0, Status::Refused),
        (0, 1, Status::Other),
    ] {
        let found = answer(to_a(rcode).record(3, ".", 41, upper << 24, b"\0\x0f\0\x03\0\x17x"));
        assert_eq!(
            (found.status, found.rcode),
            (expected, rcode | (upper as u16) << 4)
        );
        assert_eq!(found.detail.as_deref(), Some("EDE 23 (x)"));
    }
}

#[test]
fn what_a_message_is_to_a_question() {
    let reading =
        |writer: &Writer, exact, tcp| read_as(&writer.bytes(7), "a.test", QType::A, exact, tcp);
    let truncated = to_a(0).flags(0x0200);
    assert_eq!(reading(&truncated, true, false), Reading::Truncated);
    assert!(matches!(
        reading(&truncated, true, true),
        Reading::Answer(_)
    ));
    let upper = Writer::answer("A.test", QType::A, 0);
    assert_eq!(reading(&upper, true, false), Reading::OtherCase);
    assert!(matches!(reading(&upper, false, false), Reading::Answer(_)));
    for foreign in [
        Writer::answer("b.test", QType::A, 0),
        Writer::answer("a.test", QType::Aaaa, 0),
        to_a(0).flags(0x8000),
        to_a(0).flags(0x2800),
    ] {
        assert_eq!(reading(&foreign, false, false), Reading::Foreign);
    }
    let bare = |rcode| reading(&to_a(rcode).without_question(), true, false);
    assert!(matches!(bare(1), Reading::Answer(answer) if answer.status == Status::FormErr));
    assert!(bare(0) == Reading::Foreign && bare(3) == Reading::Foreign);
}

#[test]
fn a_broken_record_breaks_the_answer() {
    for broken in [
        to_a(0).record(1, "a.test", 1, 60, &[198, 18, 0]),
        to_a(0).record(1, "a.test", CNAME, 60, b"\x01b"),
        to_a(0).record(3, ".", 41, 0, b"\0"),
    ] {
        let read = read_as(&broken.bytes(7), "a.test", QType::A, true, false);
        assert!(matches!(read, Reading::Malformed(_)), "{read:?}");
    }
    for short in [
        &b""[..],
        b"\0\x07",
        b"\0\x07\0\0\0",
        b"\0\x07\x81\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        assert!(matches!(
            read_as(short, "a.test", QType::A, true, false),
            Reading::Malformed(_)
        ));
    }
}
