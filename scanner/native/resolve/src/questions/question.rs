//! One question: its attempts, and the next step after each.

use firstflight_core::clock::{Mono, SECOND, Stamp};

use crate::answer::{Alias, DnsAnswer, MOST_ALIASES};
use crate::results::outcome::{Outcome, Transport};
use crate::status::Status;
use crate::wire::name::Name;
use crate::wire::types::QType;

/// Mean wait before the second attempt. It doubles for each further attempt.
const BACKOFF: Mono = SECOND / 2;

/// A question's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The question waits in a queue, or for the next attempt.
    Waits,
    /// The question was sent from this socket with this id.
    Sent { socket: u32, id: u16 },
}

/// A question of a name, or of a check.
#[derive(Clone, Debug)]
pub struct Question {
    /// Number of the name. `None`: the question checks whether its resolver answers.
    pub name: Option<u32>,
    /// Index of the type in the run's types.
    pub place: usize,
    pub qtype: QType,
    /// The name to query, after following the aliases. Upper and lower case are as in the last message.
    pub current: Name,
    /// The name at the start of each attempt.
    first: Name,
    pub resolver: usize,
    pub attempt: u8,
    pub edns: bool,
    /// Whether the name has random upper and lower case, which the answer must repeat.
    pub mixed: bool,
    /// Whether the next message is sent over TCP.
    pub tcp: bool,
    pub state: State,
    /// The timer of the current state. Timer numbers are unique, so timers of earlier states and questions do not
    /// match.
    pub timer: Option<u32>,
    aliases: Vec<Alias>,
    /// Time of sending of the attempt's first message.
    asked_at: Option<(Stamp, Mono)>,
    /// Start of the current wait in the queue, and total wait after the attempt's first message.
    queued_at: Mono,
    waited: Mono,
}

/// An attempt's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Answer(DnsAnswer),
    /// No readable message: TIMEOUT, NETWORK or MALFORMED, with details.
    Failure(Status, Option<String>),
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Query the same resolver again within this attempt: for the last alias, or without EDNS.
    Again,
    /// Start another attempt after about this wait.
    Retry(Mono),
    Done(Outcome),
}

impl Question {
    pub fn new(name: Option<u32>, place: usize, qtype: QType, first: Name) -> Question {
        Question {
            name,
            place,
            qtype,
            current: first,
            first,
            resolver: 0,
            attempt: 0,
            edns: true,
            mixed: false,
            tcp: false,
            state: State::Waits,
            timer: None,
            aliases: Vec::new(),
            asked_at: None,
            queued_at: 0,
            waited: 0,
        }
    }

    /// Starts an attempt at `resolver`.
    pub fn begin(&mut self, resolver: usize, mixed: bool, now: Mono) {
        // Another resolver may support EDNS.
        self.edns |= resolver != self.resolver;
        self.resolver = resolver;
        self.attempt += 1;
        self.mixed = mixed;
        self.tcp = false;
        self.current = self.first;
        self.aliases.clear();
        self.asked_at = None;
        self.waited = 0;
        self.queue(now);
    }

    /// Records that the question waits in a queue from `now` on.
    pub fn queue(&mut self, now: Mono) {
        self.state = State::Waits;
        self.timer = None;
        self.queued_at = now;
    }

    /// Records that the question was sent.
    pub fn sent(&mut self, socket: u32, id: u16, now: Mono, wall: Stamp) {
        self.state = State::Sent { socket, id };
        self.timer = None;
        if self.asked_at.is_none() {
            self.asked_at = Some((wall, now));
        } else {
            self.waited += now.saturating_sub(self.queued_at);
        }
    }

    /// Finishes the attempt at `at`. `wall` is the UTC time for a question that could not be sent.
    pub fn end(&mut self, end: End, most_attempts: u8, at: Mono, wall: Stamp) -> Next {
        let transport = if self.tcp {
            Transport::Tcp
        } else {
            Transport::Udp
        };
        let (mut answer, rcode) = match end {
            End::Answer(answer) => {
                let rcode = answer.rcode;
                (answer, Some(rcode))
            }
            End::Failure(status, detail) => {
                self.aliases.clear();
                (failure(status, detail), None)
            }
        };
        // Any answer completes a check.
        let may_lack_edns = answer.status.is_failure() && answer.status.may_lack_edns(rcode);
        if may_lack_edns && self.edns && self.name.is_some() {
            (self.edns, self.tcp) = (false, false);
            return Next::Again;
        }
        self.aliases.append(&mut answer.aliases);
        if self.is_loop() {
            answer.status = Status::Chain;
            (answer.records, answer.left_out) = (Vec::new(), 0);
            (answer.ttl, answer.unfinished) = (None, None);
        }
        if let Some(name) = answer.unfinished.filter(|_| rcode.is_some()) {
            self.current = *name;
            self.tcp = false;
            return Next::Again;
        }
        if answer.status.is_failure() && self.attempt < most_attempts {
            return Next::Retry(BACKOFF << (self.attempt - 1).min(10));
        }
        let (asked_at, started) = self.asked_at.unwrap_or((wall, at));
        Next::Done(Outcome {
            qtype: self.qtype,
            status: answer.status,
            asked_at,
            duration: at.saturating_sub(started).saturating_sub(self.waited),
            attempts: self.attempt,
            rcode,
            aliases: std::mem::take(&mut self.aliases),
            records: answer.records,
            left_out: answer.left_out,
            ttl: answer.ttl,
            transport: rcode.map(|_| transport),
            detail: answer.detail,
            resolver: self.resolver,
        })
    }

    /// Returns whether the attempt has too many aliases, or an alias repeats.
    fn is_loop(&self) -> bool {
        let targets = || self.aliases.iter().map(|alias| &alias.target);
        let repeated = targets()
            .enumerate()
            .any(|(n, target)| targets().take(n).any(|t| t == target));
        self.aliases.len() > MOST_ALIASES || repeated
    }
}

fn failure(status: Status, detail: Option<String>) -> DnsAnswer {
    DnsAnswer {
        status,
        rcode: 0,
        aliases: Vec::new(),
        records: Vec::new(),
        left_out: 0,
        ttl: None,
        unfinished: None,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::record::Record;

    fn question() -> Question {
        let mut question = Question::new(Some(1), 0, QType::A, Name::from_text("a.test").unwrap());
        question.begin(0, true, 10);
        question.sent(4, 7, 20, 1000);
        question
    }

    fn answer(status: Status, rcode: u16) -> DnsAnswer {
        DnsAnswer {
            rcode,
            ..failure(status, None)
        }
    }

    fn alias(target: &str, follow: bool) -> End {
        let aliases = vec![Alias {
            target: target.into(),
            ttl: 1,
        }];
        let unfinished = follow.then(|| Box::new(Name::from_text(target).unwrap()));
        End::Answer(DnsAnswer {
            aliases,
            unfinished,
            ..answer(Status::NoData, 0)
        })
    }

    #[test]
    fn failures_are_tried_again_with_growing_waits() {
        for (status, rcode) in [
            (Status::Timeout, None),
            (Status::ServFail, Some(2)),
            (Status::Refused, Some(5)),
            (Status::Other, Some(9)),
        ] {
            let end = match rcode {
                Some(rcode) => End::Answer(answer(status, rcode)),
                None => End::Failure(status, None),
            };
            let mut question = question();
            assert_eq!(
                question.end(end.clone(), 3, 30, 0),
                Next::Retry(SECOND / 2),
                "{status:?}"
            );
            assert!(question.edns);
            question.begin(0, true, 40);
            question.sent(4, 8, 50, 2000);
            assert_eq!(
                question.end(end.clone(), 3, 60, 0),
                Next::Retry(SECOND),
                "{status:?}"
            );
            question.begin(1, true, 70);
            question.sent(4, 9, 80, 3000);
            let Next::Done(outcome) = question.end(end, 3, 95, 0) else {
                panic!()
            };
            assert_eq!(
                (outcome.status, outcome.rcode, outcome.attempts),
                (status, rcode, 3)
            );
            assert_eq!(
                (outcome.asked_at, outcome.duration, outcome.resolver),
                (3000, 15, 1)
            );
            assert_eq!(outcome.transport, rcode.map(|_| Transport::Udp));
        }
    }

    #[test]
    fn a_server_without_edns_is_asked_again_within_the_attempt() {
        for (status, rcode) in [
            (Status::FormErr, 1),
            (Status::NotImp, 4),
            (Status::Other, 16),
        ] {
            let end = End::Answer(answer(status, rcode));
            let mut question = question();
            assert_eq!(
                question.end(end.clone(), 1, 30, 0),
                Next::Again,
                "{status:?}"
            );
            assert!(!question.edns);
            question.queue(30);
            question.sent(4, 8, 50, 2000);
            let Next::Done(outcome) = question.end(end.clone(), 1, 60, 0) else {
                panic!()
            };
            assert_eq!(
                (outcome.status, outcome.attempts, outcome.duration),
                (status, 1, 20)
            );
            assert_eq!(outcome.asked_at, 1000);
            let mut check = Question::new(None, 0, QType::A, Name::from_text(".").unwrap());
            check.begin(0, false, 10);
            check.sent(4, 7, 20, 1000);
            let next = check.end(end, 0, 30, 0);
            assert!(
                matches!(next, Next::Done(_)),
                "a check ends with any answer"
            );
        }
    }

    #[test]
    fn aliases_are_followed_within_the_attempt() {
        let mut question = question();
        assert_eq!(question.end(alias("b.test", true), 3, 30, 0), Next::Again);
        assert_eq!(question.current.text(), "b.test");
        question.queue(30);
        question.sent(4, 8, 50, 2000);
        let last = DnsAnswer {
            records: vec![Record::Data("x".into())],
            ttl: Some(5),
            ..answer(Status::NoError, 0)
        };
        let Next::Done(outcome) = question.end(End::Answer(last), 3, 60, 0) else {
            panic!()
        };
        assert_eq!(
            (outcome.aliases.len(), outcome.asked_at, outcome.duration),
            (1, 1000, 20)
        );
        assert_eq!(
            (outcome.status, outcome.ttl, outcome.attempts),
            (Status::NoError, Some(5), 1)
        );
    }

    #[test]
    fn loops_of_aliases_end() {
        let mut question = question();
        for (target, expected) in [
            ("b.test", Some(Next::Again)),
            ("a.test", Some(Next::Again)),
            ("b.test", None),
        ] {
            let next = question.end(alias(target, true), 3, 30, 0);
            match expected {
                Some(expected) => assert_eq!(next, expected),
                None => {
                    assert!(matches!(next, Next::Done(outcome) if outcome.status == Status::Chain))
                }
            }
        }
        let mut question = self::question();
        let mut followed = 0;
        while question.end(alias(&format!("n{followed}.test"), true), 3, 30, 0) == Next::Again {
            followed += 1;
        }
        assert_eq!(followed, MOST_ALIASES);
    }

    #[test]
    fn what_could_not_be_sent_has_the_time_of_its_failure() {
        let mut question = Question::new(None, 0, QType::A, Name::from_text(".").unwrap());
        question.begin(0, false, 10);
        let end = End::Failure(Status::Network, Some("no route".into()));
        let Next::Done(outcome) = question.end(end, 1, 30, 99) else {
            panic!()
        };
        assert_eq!(
            (outcome.asked_at, outcome.duration, outcome.transport),
            (99, 0, None)
        );
        assert_eq!(outcome.detail.as_deref(), Some("no route"));
    }
}
