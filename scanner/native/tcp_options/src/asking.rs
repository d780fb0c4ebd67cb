//! A target and its successive connections. The last connection completes the record.

use std::net::SocketAddr;

use firstflight_core::connects::{Agreed, Ecn, Verdict};
use firstflight_core::targets::TargetRef;

use crate::offered::Offered;
use crate::outcome::Outcome;
use crate::row::{Connection, Finished};

/// When to connect to a target again.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub offered: Offered,
    /// Maximum number of connections to one target.
    pub attempts: u8,
}

impl Rules {
    /// Returns whether the first connection to a target tests ECN.
    pub fn ecn(&self) -> Ecn {
        if self.offered.ecn {
            Ecn::Asked
        } else {
            Ecn::Known
        }
    }
}

/// A target and its connections.
#[derive(Debug)]
pub struct Asking {
    /// Index in the target list.
    pub target: u32,
    pub to: SocketAddr,
    /// Number of connections started.
    pub connects: u8,
    /// The latest connection.
    pub connection: Connection,
    /// An answer to a retransmitted SYN. Only the first SYN offers ECN, so this answer does not test ECN.
    partial: Option<(Connection, Agreed)>,
    /// The server sent a SYN-ACK that does not agree to ECN.
    not_ecn: bool,
}

/// The next step after a connection closes.
#[derive(Debug)]
pub enum Next {
    Done(Finished),
    Again(Asking),
}

impl Asking {
    /// Returns a target after its first connection was started.
    pub fn begun(target: u32, to: SocketAddr, connection: Connection) -> Asking {
        Asking {
            target,
            to,
            connects: 1,
            connection,
            partial: None,
            not_ecn: false,
        }
    }

    /// Returns whether the next connection tests ECN.
    pub fn ecn(&self, rules: &Rules) -> Ecn {
        if self.not_ecn {
            Ecn::Known
        } else {
            rules.ecn()
        }
    }

    /// Records another connection.
    pub fn begun_again(mut self, connection: Connection) -> Asking {
        self.connects += 1;
        self.connection = connection;
        self
    }

    /// Returns the next step after the current connection closed with `ended`.
    pub fn after(mut self, ended: Verdict, rules: &Rules) -> Next {
        match ended {
            // Agreed options are valid for the first SYN and for retransmissions. A missing agreement to ECN
            // is valid only for the first SYN, because retransmissions do not offer ECN.
            Verdict::Open(agreed)
                if agreed.syn_retransmissions == 0 || agreed.ecn || self.not_ecn =>
            {
                Next::Done(self.finished(rules, Outcome::Answered, None, Some(agreed)))
            }
            Verdict::Open(agreed) => {
                self.partial = Some((self.connection, agreed));
                if rules.offered.ecn && self.connects < rules.attempts {
                    return Next::Again(self);
                }
                Next::Done(self.given_up(rules, None))
            }
            Verdict::NotEcn => {
                self.not_ecn = true;
                if self.connects < rules.attempts {
                    return Next::Again(self);
                }
                Next::Done(self.given_up(rules, None))
            }
            Verdict::Failed(_) if self.partial.is_some() || self.not_ecn => {
                Next::Done(self.given_up(rules, None))
            }
            Verdict::Failed(error) => {
                let outcome = Outcome::of(&error);
                Next::Done(self.finished(rules, outcome, Some(error.to_string()), None))
            }
        }
    }

    /// Returns the result without another connection: the last answer, or a timeout. `why` is the reason for
    /// giving up before the timeout.
    pub fn given_up(self, rules: &Rules, why: Option<String>) -> Finished {
        match self.partial {
            Some((connection, agreed)) => {
                let answered = Asking { connection, ..self };
                answered.finished(rules, Outcome::Answered, None, Some(agreed))
            }
            None if self.not_ecn => self.finished(rules, Outcome::Answered, why, None),
            None => self.finished(rules, Outcome::Timeout, why, None),
        }
    }

    fn finished(
        self,
        rules: &Rules,
        outcome: Outcome,
        detail: Option<String>,
        agreed: Option<Agreed>,
    ) -> Finished {
        Finished {
            target: TargetRef::Listed(self.target),
            outcome,
            detail,
            connection: Some(self.connection),
            connects: self.connects,
            agreed,
            not_ecn: self.not_ecn,
            offered: rules.offered,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    const ALL: Offered = Offered {
        timestamps: true,
        sack: true,
        window_scaling: true,
        ecn: true,
    };

    fn open(syn_retransmissions: u32) -> Verdict {
        agreed(syn_retransmissions, syn_retransmissions == 0)
    }

    fn agreed(syn_retransmissions: u32, ecn: bool) -> Verdict {
        Verdict::Open(Agreed {
            timestamps: true,
            sack: true,
            wscale: Some(7),
            ecn,
            mss: Some(1460),
            rtt_us: None,
            syn_retransmissions,
        })
    }

    fn refused() -> Verdict {
        Verdict::Failed(Error::from(ErrorKind::ConnectionRefused))
    }

    #[test]
    fn a_target_is_asked_again_while_a_lost_syn_hides_its_ecn() {
        let without_ecn = Offered { ecn: false, ..ALL };
        for (offered, attempts, ends, connects, outcome, lost) in [
            (ALL, 3, vec![open(0)], 1, Outcome::Answered, Some(0)),
            (
                ALL,
                3,
                vec![open(1), open(0)],
                2,
                Outcome::Answered,
                Some(0),
            ),
            (
                ALL,
                2,
                vec![open(1), open(2)],
                2,
                Outcome::Answered,
                Some(2),
            ),
            (ALL, 1, vec![open(1)], 1, Outcome::Answered, Some(1)),
            (without_ecn, 3, vec![open(1)], 1, Outcome::Answered, Some(1)),
            // The server answered the first SYN after the kernel had sent it again.
            (ALL, 3, vec![agreed(1, true)], 1, Outcome::Answered, Some(1)),
            (
                ALL,
                3,
                vec![open(1), refused()],
                2,
                Outcome::Answered,
                Some(1),
            ),
            (ALL, 3, vec![refused()], 1, Outcome::Refused, None),
        ] {
            let rules = Rules { offered, attempts };
            let at = |sent_at| Connection {
                sent_at,
                local: None,
            };
            let mut asking = Some(Asking::begun(0, ([192, 0, 2, 1], 443).into(), at(1)));
            let mut done = None;
            for end in ends {
                let now = asking.take().unwrap();
                match now.after(end, &rules) {
                    Next::Done(finished) => done = Some(finished),
                    Next::Again(again) => asking = Some(again.begun_again(at(2))),
                }
            }
            let done = done.unwrap();
            let retransmissions = done.agreed.map(|agreed| agreed.syn_retransmissions);
            assert_eq!(
                (done.connects, done.outcome, retransmissions),
                (connects, outcome, lost)
            );
        }
    }

    #[test]
    fn a_target_is_asked_for_the_rest_if_its_syn_ack_does_not_agree_to_ecn() {
        for (attempts, ends, connects, knows_rest) in [
            // The kernel's report on ECN is ignored for the second connection.
            (3, vec![Verdict::NotEcn, agreed(0, true)], 2, true),
            (3, vec![Verdict::NotEcn, agreed(1, false)], 2, true),
            (3, vec![Verdict::NotEcn, refused()], 2, false),
            (3, vec![open(1), Verdict::NotEcn, open(0)], 3, true),
            (2, vec![open(1), Verdict::NotEcn], 2, true),
            (1, vec![Verdict::NotEcn], 1, false),
        ] {
            let rules = Rules {
                offered: ALL,
                attempts,
            };
            let at = Connection {
                sent_at: 1,
                local: None,
            };
            let mut asking = Some(Asking::begun(0, ([192, 0, 2, 1], 443).into(), at));
            let mut done = None;
            for end in ends {
                let was_not_ecn = matches!(end, Verdict::NotEcn);
                match asking.take().unwrap().after(end, &rules) {
                    Next::Done(finished) => done = Some(finished),
                    Next::Again(again) => {
                        let ecn = if was_not_ecn { Ecn::Known } else { Ecn::Asked };
                        assert_eq!(again.ecn(&rules), ecn);
                        asking = Some(again.begun_again(at));
                    }
                }
            }
            let done = done.unwrap();
            assert_eq!(
                (done.outcome, done.not_ecn, done.connects),
                (Outcome::Answered, true, connects)
            );
            assert_eq!(done.agreed.is_some(), knows_rest);
        }
    }

    #[test]
    fn what_is_given_up_early_says_why_unless_it_was_answered() {
        let rules = Rules {
            offered: ALL,
            attempts: 2,
        };
        let begun = || {
            let connection = Connection {
                sent_at: 1,
                local: None,
            };
            Asking::begun(0, ([192, 0, 2, 1], 443).into(), connection)
        };
        let Next::Again(answered) = begun().after(open(1), &rules) else {
            panic!("a SYN was lost");
        };
        for (asking, outcome, detail) in [
            (begun(), Outcome::Timeout, Some("why")),
            (answered, Outcome::Answered, None),
        ] {
            let done = asking.given_up(&rules, Some("why".into()));
            assert_eq!((done.outcome, done.detail.as_deref()), (outcome, detail));
        }
    }
}
