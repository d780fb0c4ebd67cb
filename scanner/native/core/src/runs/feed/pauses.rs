//! The feed of an engine without planned probes. It only pauses groups.

use super::commands::{Command, Feed, FeedEvent};
use crate::Failure;
use crate::input::targets::Groups;

/// The feed, and how it ended.
pub struct Pauses {
    feed: Option<Feed>,
    /// The feeding program has sent `end`.
    complete: bool,
    broken: Option<Failure>,
}

impl Pauses {
    /// Reads `feed`, if there is one.
    pub fn new(feed: Option<Feed>) -> Pauses {
        Pauses {
            feed,
            complete: false,
            broken: None,
        }
    }

    /// Executes the commands received since the last call. Returns whether the run has to stop: the feed
    /// stopped without `end`, or contains a command that is not about pauses.
    pub fn read(&mut self, groups: &mut Groups) -> bool {
        while let Some(feed) = &self.feed {
            match feed.next() {
                FeedEvent::Nothing => return false,
                FeedEvent::Command(Command::Pause(group)) => groups.pause(group),
                FeedEvent::Command(Command::Free(group)) => groups.free(group),
                FeedEvent::Command(Command::Refuse(group)) => groups.refuse(group),
                FeedEvent::Command(Command::End) => self.complete = true,
                FeedEvent::Command(Command::Probe(_)) => {
                    let why = "the feed plans a probe, but this engine accepts only hold, free and refuse";
                    return self.fail(Failure::Input(why.into()));
                }
                FeedEvent::Broken(failure) => return self.fail(failure),
                FeedEvent::Closed => {
                    self.feed = None;
                    if self.complete {
                        groups.refuse_paused();
                    }
                    return !self.complete;
                }
            }
        }
        false
    }

    fn fail(&mut self, failure: Failure) -> bool {
        self.feed = None;
        self.broken = Some(failure);
        true
    }

    /// Returns the fault of the feed, if any.
    pub fn broken(&self) -> Option<Failure> {
        self.broken.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::targets::Standing;

    /// Reads a feed to its end. Returns whether the run has to stop.
    fn read(text: &'static str, groups: &mut Groups) -> (bool, Option<Failure>) {
        let mut pauses = Pauses::new(Some(Feed::of(move || text.as_bytes()).unwrap()));
        loop {
            let stop = pauses.read(groups);
            if stop || pauses.feed.is_none() {
                return (stop, pauses.broken());
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn groups_are_paused_freed_and_refused() {
        let mut groups = Groups::default();
        let (stop, broken) = read(
            "hold 7\nhold 8\nhold 9\nfree 8\nrefuse 9\nend\n",
            &mut groups,
        );
        assert!(!stop && broken.is_none());
        let found = [7, 8, 9].map(|group| groups.standing(group));
        // After the end of the feed, nobody can free the first group.
        assert_eq!(
            found,
            [Standing::Refused, Standing::Free, Standing::Refused]
        );
    }

    #[test]
    fn a_feed_that_breaks_off_or_plans_probes_ends_the_run() {
        for (text, reason) in [
            ("hold 7\n", None),
            ("stop\n", Some("line 1")),
            ("slot 2147483648 1 0 0 0 ::1 443\n", Some("plans a probe")),
        ] {
            let mut groups = Groups::default();
            let (stop, broken) = read(text, &mut groups);
            let broken = broken.map(|failure| failure.to_string());
            let paused = groups.standing(7) == Standing::Paused;
            assert_eq!((stop, paused), (true, text.starts_with("hold")), "{text}");
            match reason {
                None => assert_eq!(broken, None),
                Some(reason) => assert!(broken.is_some_and(|why| why.contains(reason)), "{text}"),
            }
        }
        assert!(!Pauses::new(None).read(&mut Groups::default()));
    }
}
