//! The commands of the feed (`--feed`): one per line of standard input, while the engine runs.
//!
//! ```text
//! slot NUMBER AT GRACE OWNED GROUP IP PORT [DOMAIN]   probe at AT (UTC, ns), at most GRACE ms later
//! hold GROUP | free GROUP | refuse GROUP              see input/targets/groups.rs
//! end                                                 no more planned probes
//! ```
//!
//! Input that stops without `end` means that the feeding program has died. The run then stops gracefully.

use std::io::BufRead;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use crate::Failure;
use crate::clock::Stamp;
use crate::host_name::fault_of_name;
use crate::input::targets::{FIRST_PLANNED, FedTarget};

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Probe(Planned),
    Pause(u32),
    Free(u32),
    Refuse(u32),
    End,
}

/// A probe that leaves at a set time.
#[derive(Debug, PartialEq, Eq)]
pub struct Planned {
    /// Planned time, ns since 1970.
    pub at: Stamp,
    /// Longest delay after the planned time, ns.
    pub grace: u64,
    pub fed: FedTarget,
}

/// The result of [`Feed::next`].
pub enum FeedEvent {
    Command(Command),
    Nothing,
    /// The input is closed.
    Closed,
    /// A line that cannot be parsed.
    Broken(Failure),
}

/// The receiving side. A thread reads the input, so that the engine never waits for a line.
pub struct Feed(Receiver<Result<Command, Failure>>);

impl Feed {
    /// Starts to read standard input.
    pub fn start() -> Result<Feed, Failure> {
        Feed::of(|| std::io::stdin().lock())
    }

    /// Starts to read the input that `open` returns.
    pub fn of<R: BufRead>(open: impl FnOnce() -> R + Send + 'static) -> Result<Feed, Failure> {
        let (to, from) = channel();
        std::thread::Builder::new()
            .name("feed".into())
            .spawn(move || {
                for (number, line) in (1..).zip(open().lines()) {
                    let command = line
                        .ok()
                        .and_then(|line| parse(&line))
                        .ok_or_else(|| broken(number));
                    let stop = command.is_err();
                    if to.send(command).is_err() || stop {
                        break;
                    }
                }
            })
            .map_err(|e| Failure::Usage(format!("cannot start a thread to read the feed: {e}")))?;
        Ok(Feed(from))
    }

    /// Returns the next command, without waiting.
    pub fn next(&self) -> FeedEvent {
        match self.0.try_recv() {
            Ok(Ok(command)) => FeedEvent::Command(command),
            Ok(Err(failure)) => FeedEvent::Broken(failure),
            Err(TryRecvError::Empty) => FeedEvent::Nothing,
            Err(TryRecvError::Disconnected) => FeedEvent::Closed,
        }
    }
}

fn broken(number: u64) -> Failure {
    Failure::Input(format!(
        "line {number} of the feed is not a valid command; earlier records are kept"
    ))
}

/// Parses a line.
fn parse(line: &str) -> Option<Command> {
    let mut words = line.split_ascii_whitespace();
    let command = match words.next()? {
        "slot" => Command::Probe(planned(&mut words)?),
        "hold" => Command::Pause(group(&mut words)?),
        "free" => Command::Free(group(&mut words)?),
        "refuse" => Command::Refuse(group(&mut words)?),
        "end" => Command::End,
        _ => return None,
    };
    words.next().is_none().then_some(command)
}

fn group<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<u32> {
    words.next()?.parse().ok().filter(|group| *group != 0)
}

fn planned<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Planned> {
    let number = words.next()?.parse().ok().filter(|n| *n >= FIRST_PLANNED)?;
    let at: Stamp = words.next()?.parse().ok().filter(|at| *at > 0)?;
    let grace: u32 = words.next()?.parse().ok()?;
    let owned = match words.next()? {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    let group = words.next()?.parse().ok()?;
    let ip_text = words.next()?;
    let ip: IpAddr = ip_text.parse().ok()?;
    let port = words.next()?.parse().ok().filter(|port| *port != 0)?;
    let domain = words.next().unwrap_or_default();
    if !domain.is_empty() && fault_of_name(domain).is_some() {
        return None;
    }
    Some(Planned {
        at,
        grace: u64::from(grace) * 1_000_000,
        fed: FedTarget {
            number,
            ip_text: ip_text.into(),
            ip,
            domain: domain.into(),
            port,
            group,
            owned,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_and_nothing_else() {
        let Some(Command::Probe(slot)) =
            parse("slot 2147483650 1795154400000000000 250 1 13335 192.0.2.1 443 a.test")
        else {
            panic!("a good line is refused");
        };
        assert_eq!(
            (slot.at, slot.grace, slot.fed.number, slot.fed.owned),
            (
                1_795_154_400_000_000_000,
                250_000_000,
                FIRST_PLANNED + 2,
                true
            )
        );
        assert_eq!(
            (&*slot.fed.ip_text, &*slot.fed.domain, slot.fed.group),
            ("192.0.2.1", "a.test", 13335)
        );
        let nameless = parse("slot 2147483648 1 0 0 0 ::1 443");
        assert!(matches!(nameless, Some(Command::Probe(s)) if s.fed.domain.is_empty()));
        assert_eq!(parse("hold 7"), Some(Command::Pause(7)));
        assert_eq!(parse("end"), Some(Command::End));
        let bad = [
            "",
            "stop",
            "hold",
            "hold 0",
            "hold 1 2",
            "end now",
            "slot 7 1 0 0 0 ::1 443",
            "slot 2147483648 0 0 0 0 ::1 443",
            "slot 2147483648 1 0 2 0 ::1 443",
            "slot 2147483648 1 0 0 0 host 443",
            "slot 2147483648 1 0 0 0 ::1 0",
            "slot 2147483648 1 0 0 0 ::1 443 a..b",
            "slot 2147483648 1 0 0 0 ::1 443 a.test more",
        ];
        assert!(bad.iter().all(|line| parse(line).is_none()));
    }
}
