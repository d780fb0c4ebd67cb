//! What came of a question, and of a name.

use firstflight_core::clock::{Mono, Stamp};

use crate::answer::Alias;
use crate::status::Status;
use crate::wire::record::Record;
use crate::wire::types::QType;

/// How the last message of an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

impl Transport {
    /// Returns the word in records.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }
}

/// The result of a question: the last attempt's answer or failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub qtype: QType,
    pub status: Status,
    /// When the last attempt was sent.
    pub asked_at: Stamp,
    /// From then to its answer or timeout, without waits for the rate.
    pub duration: Mono,
    pub attempts: u8,
    /// `None` without an answer.
    pub rcode: Option<u16>,
    pub aliases: Vec<Alias>,
    pub records: Vec<Record>,
    /// Records of the answer that are not among them, because it has too many.
    pub left_out: u16,
    pub ttl: Option<u32>,
    pub transport: Option<Transport>,
    pub detail: Option<String>,
    /// Number of the resolver that the last attempt asked.
    pub resolver: usize,
}

/// A name all of whose questions are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Line of the name in the input.
    pub line: u32,
    pub domain: String,
    /// In the order of the types.
    pub outcomes: Vec<Outcome>,
}

impl Finished {
    /// Returns about how many bytes it takes.
    pub fn weight(&self) -> u64 {
        let of_record = |record: &Record| match record {
            Record::Address(_) => 20,
            Record::Data(text) => 32 + text.len(),
            Record::Https(https) => {
                let lists = [&https.alpn, &https.ipv4hint, &https.ipv6hint];
                let texts = lists.into_iter().flatten().map(|text| 24 + text.len());
                200 + texts.sum::<usize>()
                    + https
                        .ech_configs
                        .iter()
                        .map(|(_, name)| 32 + name.len())
                        .sum::<usize>()
            }
        };
        let of_outcome = |outcome: &Outcome| {
            let aliases = outcome.aliases.iter().map(|alias| 32 + alias.target.len());
            200 + outcome.records.iter().map(of_record).sum::<usize>() + aliases.sum::<usize>()
        };
        let outcomes: usize = self.outcomes.iter().map(of_outcome).sum();
        (64 + self.domain.len() + outcomes) as u64
    }
}
