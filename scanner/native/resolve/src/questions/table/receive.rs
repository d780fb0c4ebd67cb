//! Processes messages and socket errors for the questions in flight.

use std::io;

use firstflight_core::clock::Mono;

use super::Table;
use crate::answer::{self, Asked, Reading};
use crate::questions::question::{End, State};
use crate::status::Status;

impl Table {
    /// Processes a message that arrived on `socket` at `at`.
    pub fn message(&mut self, socket: u32, bytes: &[u8], at: Mono) {
        let id = bytes.first_chunk().map(|id| u16::from_be_bytes(*id));
        let number = id.and_then(|id| self.sent.get(&(socket, id)).copied());
        let Some((number, question)) = number.and_then(|n| Some((n, self.questions.get_mut(n)?)))
        else {
            self.counts.unmatched += 1;
            return;
        };
        let asked = Asked {
            name: &question.current,
            qtype: question.qtype,
            exact: question.mixed,
            tcp: question.tcp,
        };
        let resolver = question.resolver;
        // A name without upper case, such as the root, does not show whether the resolver preserves the case.
        let mixed = question.mixed && question.current.has_upper_case();
        let tcp = question.tcp.then_some(resolver);
        let end = match answer::read(bytes, asked, &mut self.sections) {
            Reading::Foreign => {
                self.counts.foreign += 1;
                return;
            }
            Reading::OtherCase => {
                // The resolver does not preserve the case, or the message is forged. Ignore the answer.
                self.resolvers.changed_case(resolver);
                question.mixed = false;
                question.queue(at);
                let queues = &mut self.queues[resolver];
                let by_the_same = if question.tcp {
                    &mut queues.tcp
                } else {
                    &mut queues.udp
                };
                by_the_same.push_back(number);
                self.take_back(socket, id, tcp);
                return;
            }
            Reading::Truncated => {
                self.counts.truncated += 1;
                question.tcp = true;
                question.queue(at);
                self.queues[resolver].tcp.push_back(number);
                self.resolvers.answered(resolver, mixed);
                self.take_back(socket, id, tcp);
                return;
            }
            Reading::Answer(answer) => End::Answer(answer),
            Reading::Malformed(why) => End::Failure(Status::Malformed, Some(why.0.to_owned())),
        };
        self.take_back(socket, id, tcp);
        self.resolvers
            .answered(resolver, mixed && matches!(end, End::Answer(_)));
        self.end(number, end, at);
    }

    /// Removes a question from the sent questions.
    pub(super) fn take_back(&mut self, socket: u32, id: Option<u16>, tcp: Option<usize>) {
        if id.is_some_and(|id| self.sent.remove(&(socket, id)).is_some()) {
            self.over.push(socket);
            self.disconnected(tcp);
        }
    }

    /// Records that a TCP connection to a resolver is finished.
    fn disconnected(&mut self, resolver: Option<usize>) {
        if let Some(resolver) = resolver {
            let connections = &mut self.queues[resolver].connections;
            *connections = connections.saturating_sub(1);
        }
    }

    /// Fails the attempts of all questions sent from a failed socket. Questions in a batch that is not sent yet are
    /// not affected.
    pub fn failed(&mut self, socket: u32, error: &io::Error, at: Mono) {
        let mine: Vec<(u16, u32)> = self
            .sent
            .iter()
            .filter(|((by, _), _)| *by == socket)
            .map(|((_, id), number)| (*id, *number))
            .collect();
        for (id, number) in mine {
            let question = self.questions.get_mut(number);
            let Some(question) = question.filter(|question| question.state != State::Waits) else {
                continue;
            };
            let tcp = question.tcp.then_some(question.resolver);
            self.take_back(socket, Some(id), tcp);
            self.unsent(number, error, at);
        }
    }

    /// Fails the attempt for a question that the system did not send.
    pub fn unsent(&mut self, number: u32, error: &io::Error, at: Mono) {
        let end = End::Failure(Status::Network, Some(reason(error)));
        self.end(number, end, at);
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        _ => firstflight_usage::reason(error),
    }
}
