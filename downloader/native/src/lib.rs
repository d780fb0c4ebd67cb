//! Downloads over QUIC with quiche, one at a time, as a client of `firstflight download` (`firstflight_contract`). The
//! egress policy checks each address before the socket is opened. `main.rs` is the program. Another program can observe
//! each connection (`observer`): the testbed's client writes quiche's own log (testbed/clients/quiche). The workspace
//! builds without that log.
//!
//! | module | |
//! | --- | --- |
//! | [`socket`] | UDP with a large buffer, read in batches |
//! | [`connection`] | a connection's limits, certificates and keys |
//! | [`download`] | connection, request, and how it ends |
//! | [`observer`] | access to connections for another program |
//! | [`plain`] | HTTP/0.9, only in the testbed |
//! | [`response`] | headers and body, without I/O |

mod connection;
mod download;
pub mod observer;
mod plain;
mod response;
mod socket;

use crate::observer::Observer;
use firstflight_contract::program::{self, Stopped};
use firstflight_contract::{ClientAnswer, Request};
use firstflight_core::Failure;
use firstflight_core::clock::Clock;
use firstflight_core::policy::{Namespace, Policy, Refusal, Trust};
use std::io::Write;
use std::path::PathBuf;

/// The whole program. `quiche` is quiche's version. On failure, exits the process with the failure's status.
pub fn main(name: &str, version: &str, quiche: &str, observer: &mut dyn Observer) {
    if let Err(failure) = run(name, version, quiche, observer) {
        let _ = writeln!(std::io::stderr(), "{name}: {failure}");
        std::process::exit(failure.exit_status().into());
    }
}

fn help(name: &str) -> String {
    format!(
        "\
Downloads over QUIC for `firstflight download`: reads one request per line, writes one answer per line.

Usage: {name} [blocklist=FILE] [optout=FILE] [allow-net=CIDR] [own=CIDR] ...

Example: {name} allow-net=127.0.0.0/8 < requests.jsonl"
    )
}

fn run(
    name: &str,
    version: &str,
    quiche: &str,
    observer: &mut dyn Observer,
) -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if program::explains(&arguments, name, version, &help(name)).map_err(failure)? {
        return Ok(());
    }
    let mut policy = policy(arguments.into_iter())?;
    let clock = Clock::start();
    let keys = std::env::var_os("SSLKEYLOGFILE").map(PathBuf::from);
    let answer = |request: &Request| {
        let refused = match policy.look_until_complete(clock) {
            Trust::All => policy.check(request.ip, &request.host).err(),
            Trust::Ending | Trust::None => Some(Refusal::Unconfirmed),
        };
        match refused {
            None => download::run(request, keys.as_deref(), observer),
            Some(refusal) => ClientAnswer::blocked(refusal.to_string()),
        }
    };
    program::serve(&format!("quiche/{quiche}"), answer).map_err(failure)
}

fn failure(stopped: Stopped) -> Failure {
    match stopped {
        Stopped::Input(why) => Failure::Input(why),
        Stopped::Output(why) => Failure::Output(why),
    }
}

/// Returns the policy that the arguments describe: KIND=VALUE, where KIND is blocklist, optout, allow-net or own.
///
/// `own`: a network of this machine outside of the program's network namespace.
fn policy(arguments: impl Iterator<Item = String>) -> Result<Policy, Failure> {
    let (mut allow, mut own) = (Vec::new(), Vec::new());
    let (mut blocklists, mut optouts) = (Vec::new(), Vec::new());
    for argument in arguments {
        let (kind, value) = argument.split_once('=').unwrap_or((argument.as_str(), ""));
        match kind {
            "allow-net" => allow.push(value.to_owned()),
            "own" => own.push(value.to_owned()),
            "blocklist" => blocklists.push(PathBuf::from(value)),
            "optout" => optouts.push(PathBuf::from(value)),
            _ => {
                return Err(Failure::Usage(format!(
                    "{argument}: expected blocklist=, optout=, allow-net= or own="
                )));
            }
        }
    }
    let here = Namespace::here(&[])?.with_own(&own)?;
    Policy::read(&allow, &blocklists, &optouts, here)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that stops after `limit` bytes.
    pub fn request(limit: u64) -> Request {
        let line = r#"{"host":"a.test","ip":"127.0.0.1","port":443,"path":"/","user_agent":"x","timeout_s":1.5,
            "max_bytes":LIMIT,"roots":"r.pem","verify":true}"#;
        serde_json::from_str(&line.replace("LIMIT", &limit.to_string())).expect("a request")
    }

    fn of(arguments: &[&str]) -> Result<Policy, Failure> {
        policy(arguments.iter().map(|text| (*text).to_owned()))
    }

    #[test]
    fn lists_are_arguments() {
        let allowed = of(&["allow-net=127.0.0.0/8"]).expect("a policy");
        let address = "127.0.0.1".parse().expect("an address");
        assert!(allowed.check(address, "a.test").is_ok());
        assert!(of(&[]).expect("a policy").check(address, "a.test").is_err());
    }

    #[test]
    fn addresses_of_the_machine_are_refused_unless_allowed() {
        let address = "192.0.1.7".parse().expect("an address");
        for (arguments, is_permitted) in [
            (&[][..], true),
            (&["own=192.0.1.7/32"], false),
            (&["own=192.0.0.0/23"], false),
            (&["own=192.0.1.8/32"], true),
        ] {
            let found = of(arguments).expect("a policy").check(address, "a.test");
            assert_eq!(found.is_ok(), is_permitted, "{arguments:?}");
        }
        let loopback = "127.0.0.1".parse().expect("an address");
        let allowed = of(&["own=127.0.0.0/8", "allow-net=127.0.0.0/8"]).expect("a policy");
        assert!(allowed.check(loopback, "a.test").is_ok());
    }

    #[test]
    fn what_is_no_list_is_one_sentence_and_a_status() {
        for (argument, status) in [
            ("allow-net", 2),
            ("allow-net=no", 2),
            ("nets=127.0.0.0/8", 2),
            ("own=no", 2),
            ("--blocklist", 2),
            ("blocklist=/nonexistent", 3),
            ("optout=", 3),
        ] {
            let Err(failure) = of(&[argument]) else {
                panic!("{argument} is taken for a list");
            };
            assert_eq!(failure.exit_status(), status, "{argument}: {failure}");
            assert!(!failure.to_string().contains('\n'));
        }
    }
}
