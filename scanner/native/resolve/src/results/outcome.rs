//! Results of questions and of names.

use firstflight_core::clock::{Mono, Stamp};

use crate::answer::Alias;
use crate::status::Status;
use crate::wire::record::Record;
use crate::wire::types::QType;

/// The transport of an answer's last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

impl Transport {
    /// Returns the value of the column.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }
}

/// A question's result: the last attempt's answer or failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub qtype: QType,
    pub status: Status,
    /// When the last attempt was sent.
    pub asked_at: Stamp,
    /// Time from there to the answer or timeout, without waits for the rate.
    pub duration: Mono,
    pub attempts: u8,
    /// `None` without an answer.
    pub rcode: Option<u16>,
    pub aliases: Vec<Alias>,
    pub records: Vec<Record>,
    /// Records without a row, because the answer has too many records.
    pub left_out: u16,
    pub ttl: Option<u32>,
    pub transport: Option<Transport>,
    pub detail: Option<String>,
    /// Index of the last attempt's resolver.
    pub resolver: usize,
}

/// A name with all questions finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Line of the name in the input.
    pub line: u32,
    pub domain: String,
    /// In the order of the types.
    pub outcomes: Vec<Outcome>,
}

impl Finished {
    /// Returns the approximate size in bytes.
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
