//! A run's resolvers: chooses the next resolver, and tracks failures and case preservation.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

/// A resolver's share is halved after each series of this many consecutive failed attempts (no answer, or any
/// error). Names that fail at every resolver halve all shares equally.
const PATIENCE: u32 = 8;
/// Maximum number of halvings, so that a failing resolver still gets some questions.
const HALVINGS: u32 = 6;
/// This many answers with changed case, without any answer that preserves the case, show that a resolver does not
/// preserve it.
const CHANGED: u32 = 3;

/// A resolver from the options.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    pub address: SocketAddr,
    pub weight: f64,
}

impl Named {
    /// Parses `IP`, `IP:PORT` or `IP#PORT`, optionally followed by `,weight=N`.
    pub fn parse(text: &str) -> Result<Named, String> {
        let (address, weight) = match text.split_once(",weight=") {
            Some((address, weight)) => (address, weight.parse().ok()),
            None => (text, Some(1.0)),
        };
        let wrong = || {
            "write it like 192.0.2.53, 192.0.2.53:5353, [2001:db8::53]:5353 or \
             192.0.2.53,weight=2"
        };
        let weight = weight
            .filter(|weight: &f64| *weight > 0.0 && *weight <= 1000.0)
            .ok_or_else(wrong)?;
        let address = parse_address(address).ok_or_else(wrong)?;
        let ip = address.ip();
        let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        if ip.is_unspecified() || ip.is_multicast() || broadcast {
            return Err("is not the address of a single host".into());
        }
        Ok(Named { address, weight })
    }

    /// Returns the resolver's name in records: ADDRESS, or ADDRESS#PORT if the port is not 53.
    pub fn label(&self) -> String {
        match self.address.port() {
            53 => self.address.ip().to_string(),
            port => format!("{}#{port}", self.address.ip()),
        }
    }
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    let at = |ip: &str, port: &str| {
        let ip: IpAddr = ip.parse().ok()?;
        Some(SocketAddr::new(
            ip.to_canonical(),
            port.parse().ok().filter(|port| *port != 0)?,
        ))
    };
    match text.split_once('#') {
        Some((ip, port)) => at(ip, port),
        None => at(text, "53").or_else(|| {
            let address: SocketAddr = text.parse().ok()?;
            at(&address.ip().to_string(), &address.port().to_string())
        }),
    }
}

/// Returns the first name server in a resolv.conf(5) text.
pub fn first_name_server(text: &str) -> Option<Named> {
    let servers = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("nameserver"));
    servers
        .filter_map(|rest| rest.split_whitespace().next())
        .find_map(|server| Named::parse(server).ok())
}

/// The state and counters of a resolver during a run.
#[derive(Clone, Debug, Serialize)]
pub struct Resolver {
    #[serde(rename = "resolver")]
    pub label: String,
    #[serde(skip)]
    pub address: SocketAddr,
    weight: f64,
    /// Questions sent, and answers received.
    pub asked: u64,
    pub answered: u64,
    /// Answers that change the case of the question's name.
    pub case_changed: u64,
    case_kept: u64,
    /// Consecutive failed attempts.
    #[serde(skip)]
    failed: u32,
}

impl Resolver {
    fn share(&self) -> f64 {
        self.weight / f64::from(1_u32 << (self.failed / PATIENCE).min(HALVINGS))
    }
}

/// All resolvers of a run.
#[derive(Clone, Debug)]
pub struct Resolvers(Vec<Resolver>);

impl Resolvers {
    pub fn new(named: &[Named]) -> Resolvers {
        let new = |named: &Named| Resolver {
            label: named.label(),
            address: named.address,
            weight: named.weight,
            asked: 0,
            answered: 0,
            case_changed: 0,
            case_kept: 0,
            failed: 0,
        };
        Resolvers(named.iter().map(new).collect())
    }

    pub fn all(&self) -> &[Resolver] {
        &self.0
    }

    /// Chooses a resolver at random by the shares. `not` is the resolver that just failed; it is excluded if there
    /// are others.
    pub fn choose(&self, random: u32, not: Option<usize>) -> usize {
        let others = |number: usize| self.0.len() == 1 || Some(number) != not;
        let shares = || {
            self.0
                .iter()
                .enumerate()
                .filter(|(number, _)| others(*number))
        };
        let all: f64 = shares().map(|(_, resolver)| resolver.share()).sum();
        let mut left = f64::from(random) / (f64::from(u32::MAX) + 1.0) * all;
        let mut last = 0;
        for (number, resolver) in shares() {
            last = number;
            left -= resolver.share();
            if left < 0.0 {
                break;
            }
        }
        last
    }

    /// Counts a sent question.
    pub fn asked(&mut self, number: usize) {
        self.0[number].asked += 1;
    }

    /// Counts an answer. `mixed`: the answer repeats the question's random case.
    pub fn answered(&mut self, number: usize, mixed: bool) {
        let resolver = &mut self.0[number];
        resolver.answered += 1;
        resolver.case_kept += u64::from(mixed);
    }

    /// Records whether an attempt failed.
    pub fn finished(&mut self, number: usize, failed: bool) {
        let in_a_row = &mut self.0[number].failed;
        *in_a_row = if failed {
            in_a_row.saturating_add(1)
        } else {
            0
        };
    }

    /// Counts an answer that changes the case of the question's name.
    pub fn changed_case(&mut self, number: usize) {
        self.0[number].case_changed += 1;
    }

    /// Returns whether questions to this resolver use random case.
    pub fn keeps_case(&self, number: usize) -> bool {
        let resolver = &self.0[number];
        resolver.case_kept > 0 || resolver.case_changed < u64::from(CHANGED)
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    fn resolvers(weights: &[&str]) -> Resolvers {
        let named: Vec<Named> = weights
            .iter()
            .map(|text| Named::parse(text).unwrap())
            .collect();
        Resolvers::new(&named)
    }

    /// Returns how often each resolver is chosen in 1000 evenly spaced draws.
    fn draws(resolvers: &Resolvers, not: Option<usize>) -> Vec<usize> {
        let mut found = vec![0; resolvers.0.len()];
        for step in 0..1000_u32 {
            found[resolvers.choose(step * (u32::MAX / 1000), not)] += 1;
        }
        found
    }

    #[test]
    fn addresses_ports_and_weights() {
        for (text, expected) in [
            ("192.0.2.53", Some(("192.0.2.53:53", 1.0, "192.0.2.53"))),
            (
                "192.0.2.53:5353,weight=2",
                Some(("192.0.2.53:5353", 2.0, "192.0.2.53#5353")),
            ),
            (
                "192.0.2.53#5353",
                Some(("192.0.2.53:5353", 1.0, "192.0.2.53#5353")),
            ),
            (
                "2001:db8::53",
                Some(("[2001:db8::53]:53", 1.0, "2001:db8::53")),
            ),
            (
                "[2001:db8::53]:54",
                Some(("[2001:db8::53]:54", 1.0, "2001:db8::53#54")),
            ),
            (
                "::ffff:192.0.2.53",
                Some(("192.0.2.53:53", 1.0, "192.0.2.53")),
            ),
            ("0.0.0.0", None),
            ("224.0.0.251", None),
            ("192.0.2.53:0", None),
            ("192.0.2.53,weight=0", None),
            ("dns.example", None),
        ] {
            let parsed = Named::parse(text).ok();
            let found =
                parsed.map(|named| (named.address.to_string(), named.weight, named.label()));
            let expected =
                expected.map(|(address, weight, label)| (address.into(), weight, label.into()));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn the_first_name_server_is_taken() {
        for (text, expected) in [
            (
                "# x\nsearch a\nnameserver 192.0.2.1\nnameserver 192.0.2.2\n",
                Some("192.0.2.1"),
            ),
            (
                "nameserver\nnameserver nonsense\n nameserver\t2001:db8::1 # y\n",
                Some("2001:db8::1"),
            ),
            ("", None),
        ] {
            let found = first_name_server(text).map(|named| named.label());
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn shares_follow_weights_and_health() {
        let mut three = resolvers(&["192.0.2.1,weight=2", "192.0.2.2", "192.0.2.3"]);
        let near = |found: usize, expected: usize| found.abs_diff(expected) <= 2;
        let found = draws(&three, None);
        assert!(near(found[0], 500) && near(found[1], 250), "{found:?}");
        assert_eq!(draws(&three, Some(0))[0], 0);
        for _ in 0..10_000 {
            three.finished(0, true);
        }
        let found = draws(&three, None);
        assert!(
            found[0] > 0 && found[0] < 20,
            "tried again, but rarely: {found:?}"
        );
        three.finished(0, false);
        assert!(near(draws(&three, None)[0], 500));
        assert_eq!(draws(&resolvers(&["192.0.2.1"]), Some(0)), [1000]);
    }

    /// Returns how many of 10,000 names each of two resolvers gets. An attempt fails if `fails(number, name,
    /// random)`.
    fn asked(fails: impl Fn(usize, u32, u32) -> bool) -> [u32; 2] {
        let mut two = resolvers(&["192.0.2.1", "192.0.2.2"]);
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut asked = [0; 2];
        for name in 0..10_000 {
            let number = two.choose(random.next_u32(), None);
            two.finished(number, fails(number, name, random.next_u32()));
            asked[number] += 1;
        }
        asked
    }

    #[test]
    fn only_a_resolver_that_fails_more_than_the_other_loses_its_share() {
        for (what, asked) in [
            ("every name is broken", asked(|_, _, _| true)),
            (
                "every other name is broken",
                asked(|_, _, random| random < u32::MAX / 2),
            ),
            (
                "a long series is broken",
                asked(|_, name, _| (3000..6000).contains(&name)),
            ),
        ] {
            assert!(asked.iter().all(|count| *count > 4500), "{what}: {asked:?}");
        }
        let one_fails = asked(|number, _, random| number == 1 || random < u32::MAX / 2);
        assert!((1..500).contains(&one_fails[1]), "{one_fails:?}");
    }

    #[test]
    fn case_is_mixed_until_it_is_changed() {
        let mut two = resolvers(&["192.0.2.1", "192.0.2.2"]);
        two.answered(1, true);
        for _ in 0..3 {
            assert!(two.keeps_case(0));
            two.changed_case(0);
            two.changed_case(1);
        }
        assert!(
            !two.keeps_case(0) && two.keeps_case(1),
            "a resolver that preserved the case still gets random case"
        );
    }
}
