//! The names and questions in flight: queues, pending answers, and waits for the next attempt.
//!
//! [`Table`] refers to sockets by number only. `engine` sends the questions in the queues and reports messages and
//! errors.

mod receive;
mod slots;
#[cfg(test)]
mod tests;
mod timers;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use firstflight_core::clock::{Mono, Stamp, wall};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::questions::question::{End, Next, Question};
use crate::questions::resolvers::Resolvers;
use crate::results::counts::Counts;
use crate::results::outcome::{Finished, Outcome};
use crate::wire::message::Sections;
use crate::wire::name::Name;
use crate::wire::query;
use crate::wire::types::QType;
use slots::Slots;

/// Settings of the questions.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The types to query for each name, without duplicates.
    pub types: Vec<QType>,
    /// Timeout of an attempt.
    pub timeout: Mono,
    pub attempts: u8,
    /// Maximum number of questions in flight.
    pub concurrency: usize,
    /// Whether names use random upper and lower case.
    pub mixed: bool,
}

/// Maximum attempts for a check whether a resolver answers.
const CHECK_ATTEMPTS: u8 = 3;

/// A name in flight.
struct Open {
    line: u32,
    domain: String,
    /// Indexed as the types.
    outcomes: Vec<Option<Outcome>>,
    left: usize,
}

/// Questions that wait to be sent to a resolver.
#[derive(Default)]
pub struct Queue {
    pub udp: VecDeque<u32>,
    pub tcp: VecDeque<u32>,
    /// TCP connections with a pending answer.
    connections: usize,
}

impl Queue {
    /// Returns whether a question can be sent, with at most `connections` TCP connections.
    pub fn waits(&self, connections: usize) -> bool {
        !self.udp.is_empty() || !self.tcp.is_empty() && self.connections < connections
    }
}

/// A check's result: the resolver, and the reason if it does not answer.
pub type Check = (usize, Option<String>);

/// All names and questions in flight.
pub struct Table {
    settings: Settings,
    pub resolvers: Resolvers,
    pub counts: Counts,
    names: Slots<Open>,
    questions: Slots<Question>,
    /// Indexed by resolver.
    pub queues: Vec<Queue>,
    sent: HashMap<(u32, u16), u32>,
    /// (time, question, timer), ordered by time.
    deadlines: VecDeque<(Mono, u32, u32)>,
    backoffs: BinaryHeap<Reverse<(Mono, u32, u32)>>,
    /// Number of the last timer. Each timer has a new number, because question numbers are reused while old timers
    /// are still queued.
    timers: u32,
    random: ChaCha8Rng,
    sections: Sections,
    /// Sockets with a finished question; one entry per question.
    pub over: Vec<u32>,
    pub finished: Vec<Finished>,
    pub checks: Vec<Check>,
    /// Consecutive questions without an answer, over all resolvers.
    pub silence: u32,
}

impl Table {
    /// Creates an empty table. `random` provides the choice of resolvers, ids, case and waits.
    pub fn new(settings: Settings, resolvers: Resolvers, random: ChaCha8Rng) -> Table {
        Table {
            queues: resolvers.all().iter().map(|_| Queue::default()).collect(),
            settings,
            resolvers,
            counts: Counts::default(),
            names: Slots::default(),
            questions: Slots::default(),
            sent: HashMap::new(),
            deadlines: VecDeque::new(),
            backoffs: BinaryHeap::new(),
            timers: 0,
            random,
            sections: Sections::default(),
            over: Vec::new(),
            finished: Vec::new(),
            checks: Vec::new(),
            silence: 0,
        }
    }

    /// Returns the number of questions in flight.
    pub fn len(&self) -> usize {
        self.questions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.questions.len() == 0
    }

    /// Returns whether another name may be started.
    pub fn has_room(&self) -> bool {
        let more = self.len() + self.settings.types.len();
        self.is_empty() || more <= self.settings.concurrency
    }

    /// Starts a name's questions.
    pub fn begin(&mut self, line: u32, domain: String, name: Name, now: Mono) {
        let types = self.settings.types.clone();
        let outcomes = types.iter().map(|_| None).collect();
        let open = self.names.insert(Open {
            line,
            domain,
            outcomes,
            left: types.len(),
        });
        for (place, qtype) in types.into_iter().enumerate() {
            let question = self
                .questions
                .insert(Question::new(Some(open), place, qtype, name));
            self.begin_attempt(question, now);
        }
    }

    /// Starts a check whether a resolver answers: a query for the addresses of the root.
    pub fn begin_check(&mut self, resolver: usize, now: Mono) {
        let Some(root) = Name::from_text(".") else {
            return;
        };
        let number = self
            .questions
            .insert(Question::new(None, 0, QType::A, root));
        if let Some(question) = self.questions.get_mut(number) {
            question.resolver = resolver;
        }
        self.begin_attempt(number, now);
    }

    fn begin_attempt(&mut self, number: u32, now: Mono) {
        let random = self.random.next_u32();
        let Some(question) = self.questions.get_mut(number) else {
            return;
        };
        let before = (question.attempt > 0).then_some(question.resolver);
        let resolver = match question.name {
            Some(_) => self.resolvers.choose(random, before),
            None => question.resolver,
        };
        let mixed = self.settings.mixed && self.resolvers.keeps_case(resolver);
        question.begin(resolver, mixed, now);
        self.queues[resolver].udp.push_back(number);
    }

    /// Writes a question for `socket` to the start of `out`. Returns the length and id.
    pub fn write(&mut self, number: u32, socket: u32, out: &mut [u8]) -> (usize, u16) {
        let random = &mut self.random;
        // RFC 5452 9.2: the id is unpredictable and not in use on this socket.
        let mut id = random.next_u32() as u16;
        while self.sent.contains_key(&(socket, id)) {
            id = random.next_u32() as u16;
        }
        let Some(question) = self.questions.get_mut(number) else {
            return (0, id);
        };
        if question.mixed {
            question.current.mix_case(|| random.next_u64());
        } else {
            question.current.make_lower_case();
        }
        let length = query::write(out, id, &question.current, question.qtype, question.edns);
        (length, id)
    }

    /// Reserves an id before the question is sent.
    pub fn reserve(&mut self, socket: u32, id: u16, number: u32) {
        self.sent.insert((socket, id), number);
    }

    /// Releases the id for a question that was not sent.
    pub fn release(&mut self, socket: u32, id: u16) {
        self.sent.remove(&(socket, id));
    }

    /// Returns the number of TCP connections to a resolver with a pending answer.
    pub fn connections(&self, resolver: usize) -> usize {
        self.queues[resolver].connections
    }

    /// Records that a question was sent.
    pub fn sent(&mut self, number: u32, socket: u32, id: u16, now: Mono, wall: Stamp) {
        let Some(question) = self.questions.get_mut(number) else {
            return;
        };
        question.sent(socket, id, now, wall);
        self.resolvers.asked(question.resolver);
        self.queues[question.resolver].connections += usize::from(question.tcp);
        let timer = next_timer(&mut self.timers);
        question.timer = Some(timer);
        self.sent.insert((socket, id), number);
        self.deadlines
            .push_back((now + self.settings.timeout, number, timer));
    }

    /// Finishes an attempt, and takes the next step.
    fn end(&mut self, number: u32, end: End, at: Mono) {
        let Some(question) = self.questions.get_mut(number) else {
            return;
        };
        let most = match (question.name, &end) {
            (Some(_), _) => self.settings.attempts,
            (None, End::Failure(status, _)) if status.is_silence() => CHECK_ATTEMPTS,
            // Any answer shows that the resolver is up.
            (None, _) => 0,
        };
        let resolver = question.resolver;
        let failed = match &end {
            End::Answer(answer) => answer.status.is_failure(),
            End::Failure(..) => true,
        };
        let next = question.end(end, most, at, wall());
        if next != Next::Again {
            self.resolvers.finished(resolver, failed);
        }
        match next {
            Next::Again => {
                question.queue(at);
                self.queues[resolver].udp.push_back(number);
            }
            Next::Retry(wait) => {
                question.queue(at);
                // The factor is 0.5 to 1.5, so that questions that failed together are not repeated together.
                let jitter = 0.5 + f64::from(self.random.next_u32()) / f64::from(u32::MAX);
                let due = at + (wait as f64 * jitter) as Mono;
                let timer = next_timer(&mut self.timers);
                question.timer = Some(timer);
                self.backoffs.push(Reverse((due, number, timer)));
            }
            Next::Done(outcome) => {
                let (name, place) = (question.name, question.place);
                self.questions.remove(number);
                self.silence = if outcome.status.is_silence() {
                    self.silence + 1
                } else {
                    0
                };
                let Some(open) = name else {
                    let why = outcome
                        .status
                        .is_silence()
                        .then(|| outcome.detail.unwrap_or_default());
                    self.checks.push((outcome.resolver, why));
                    return;
                };
                let Some(entry) = self.names.get_mut(open) else {
                    return;
                };
                entry.outcomes[place] = Some(outcome);
                entry.left -= 1;
                if entry.left == 0 {
                    self.finish(open);
                }
            }
        }
    }

    fn finish(&mut self, open: u32) {
        if let Some(open) = self.names.remove(open) {
            let outcomes: Vec<Outcome> = open.outcomes.into_iter().flatten().collect();
            self.counts.names += 1;
            for outcome in &outcomes {
                self.counts.record(outcome);
            }
            self.finished.push(Finished {
                line: open.line,
                domain: open.domain,
                outcomes,
            });
        }
    }

    /// Returns the number of names in flight.
    pub fn names(&self) -> usize {
        self.names.len()
    }
}

/// Returns the number of the next timer.
fn next_timer(timers: &mut u32) -> u32 {
    *timers = timers.wrapping_add(1);
    *timers
}
