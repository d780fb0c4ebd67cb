//! The modes in README.md. Each converts a client's Initial into a script.

mod close;
mod ecn;
mod exhaust;
mod forge;
mod negotiate;
mod order;
mod retransmit;
mod retry;
mod shape;

use crate::script::Script;
use crate::session::Session;
use firstflight_listener::Endpoint;
use firstflight_wire::Error;
use std::time::Duration;

/// Returns a mode's datagrams for a client. The delay is zero if none is declared.
type Play = fn(&Session, Duration) -> Result<Script, Error>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Delay {
    Optional,
    Needed,
}

const MODES: &[(&str, Delay, Play)] = &[
    ("sh_first", Delay::Optional, order::sh_first),
    ("sh_first_late_ack", Delay::Needed, order::sh_first_late_ack),
    ("endless_crypto", Delay::Optional, exhaust::endless_crypto),
    ("slow_crypto", Delay::Needed, exhaust::slow_crypto),
    ("ack_only", Delay::Optional, order::ack_only),
    (
        "sh_then_certificate",
        Delay::Needed,
        order::sh_then_certificate,
    ),
    ("split_packets", Delay::Optional, order::split_packets),
    ("reordered", Delay::Optional, order::reordered),
    ("lost_ack", Delay::Optional, order::lost_ack),
    ("small_ack", Delay::Needed, shape::small_ack),
    ("pn_start", Delay::Optional, shape::pn_start),
    ("ack_ecn", Delay::Optional, ecn::ack_ecn),
    ("ecn_too_many", Delay::Optional, ecn::too_many),
    ("ecn_other_mark", Delay::Optional, ecn::other_mark),
    ("ecn_congested", Delay::Optional, ecn::congested),
    ("ecn_zero", Delay::Optional, ecn::zero),
    ("ecn_decreasing", Delay::Needed, ecn::decreasing),
    ("retransmit", Delay::Optional, retransmit::retransmit),
    ("amplify", Delay::Optional, shape::amplify),
    ("duplicates", Delay::Optional, shape::duplicates),
    ("chatty", Delay::Optional, shape::chatty),
    ("closed", Delay::Optional, close::closed),
    ("closed_with_ack", Delay::Optional, close::closed_with_ack),
    ("closed_hostile", Delay::Optional, close::closed_hostile),
    ("retry_long_token", Delay::Optional, retry::long_token),
    ("retry_silent", Delay::Optional, retry::silent),
    ("retry_twice", Delay::Optional, retry::twice),
    ("retry_ack_range", Delay::Optional, retry::ack_range),
    ("version_negotiation", Delay::Optional, negotiate::version),
    (
        "version_negotiation_own",
        Delay::Optional,
        negotiate::own_version,
    ),
    ("silent", Delay::Optional, negotiate::silent),
    ("malformed_frames", Delay::Optional, forge::malformed_frames),
    ("undecryptable", Delay::Optional, forge::undecryptable),
    ("forged", Delay::Optional, forge::forged),
];

/// A mode with its delay.
#[derive(Clone, Copy)]
pub struct Behaviour {
    play: Play,
    delay: Duration,
}

impl Behaviour {
    pub fn play(&self, session: &Session) -> Result<Script, Error> {
        (self.play)(session, self.delay)
    }
}

/// Returns an endpoint's behaviour, or an error message.
pub fn behaviour(endpoint: &Endpoint) -> Result<Behaviour, String> {
    let (_, needs, play) = MODES
        .iter()
        .find(|(name, _, _)| *name == endpoint.mode)
        .ok_or_else(|| {
            format!(
                "mode `{}` is not in lab/stacks/rogue/README.md",
                endpoint.mode
            )
        })?;
    if *needs == Delay::Needed && endpoint.delay().is_zero() {
        return Err(format!(
            "mode `{}` needs a `delay_us` above 0",
            endpoint.mode
        ));
    }
    Ok(Behaviour {
        play: *play,
        delay: endpoint.delay(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_documented_and_no_other() {
        let readme = include_str!("../../README.md");
        let documented: Vec<&str> = readme
            .lines()
            .filter_map(|line| {
                line.strip_prefix("| `")?
                    .split_once('`')
                    .map(|(name, _)| name)
            })
            .filter(|name| *name != "delay_us")
            .collect();
        let mut known: Vec<&str> = MODES.iter().map(|(name, _, _)| *name).collect();
        let mut sorted = documented.clone();
        sorted.sort_unstable();
        known.sort_unstable();
        assert_eq!(sorted, known);
    }

    #[test]
    fn a_wrong_mode_or_a_missing_delay_is_named() {
        let endpoint = |mode: &str, delay_us| Endpoint {
            domain: "a.test".into(),
            ip: std::net::Ipv4Addr::LOCALHOST.into(),
            mode: mode.into(),
            delay_us,
            certificate: "small".into(),
            alpn: "h3".into(),
            http: None,
        };
        assert!(behaviour(&endpoint("silent", None)).is_ok());
        assert!(behaviour(&endpoint("loud", None)).is_err_and(|problem| problem.contains("loud")));
        assert!(
            behaviour(&endpoint("small_ack", None))
                .is_err_and(|problem| problem.contains("delay_us"))
        );
        assert!(behaviour(&endpoint("small_ack", Some(1))).is_ok());
    }
}
