//! Downloads over QUIC by quiche, one at a time, as a client of `firstflight download`.
//!
//! Standard input: one request a line; standard output: a line `{"ready": ...}`, then one answer for each request, in
//! order (`contract`). The egress policy is asked about each address before its socket is opened.
//!
//! The program is `main.rs`. Another one can look at each connection (`observer`): the testbed's client with quiche's own log
//! (testbed/clients/quiche), which the workspace builds without.
//!
//! | module | |
//! | --- | --- |
//! | [`contract`] | requests and answers |
//! | [`socket`] | UDP with a large buffer, read in batches |
//! | [`connection`] | limits, certificates, keys of a connection |
//! | [`download`] | connection, request, and how it ends |
//! | [`observer`] | what another program does with connections |
//! | [`response`] | headers and body, without I/O |

mod connection;
mod contract;
mod download;
pub mod observer;
mod response;
mod socket;

use crate::contract::{Answer, End, Request};
use crate::observer::Observer;
use firstflight_core::Failure;
use firstflight_core::clock::Clock;
use firstflight_core::policy::{Namespace, Policy, Refusal, Trust};
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// The whole program, by its name, its version and quiche's; it ends the process with the failure's status.
pub fn main(program: &str, version: &str, quiche: &str, observer: &mut dyn Observer) {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let shown = match given.first().map(String::as_str) {
        Some("--help" | "-h") => Some(help(program)),
        Some("--version" | "-V") => Some(format!("{program} {version}")),
        _ => None,
    };
    if let Some(text) = shown {
        let _ = writeln!(std::io::stdout(), "{text}");
        return;
    }
    if let Err(failure) = run(quiche, observer) {
        let _ = writeln!(std::io::stderr(), "{program}: {failure}");
        std::process::exit(failure.exit_status().into());
    }
}

fn help(program: &str) -> String {
    format!(
        "\
Downloads over QUIC, as a client of `firstflight download`: a request a line in, an answer a line out.

Usage: {program} [blocklist=FILE] [optout=FILE] [allow-net=CIDR] [own=CIDR] ...

Example: {program} allow-net=127.0.0.0/8 < requests.jsonl"
    )
}

fn run(quiche: &str, observer: &mut dyn Observer) -> Result<(), Failure> {
    let mut policy = policy(std::env::args().skip(1))?;
    let clock = Clock::start();
    let keys = std::env::var_os("SSLKEYLOGFILE").map(PathBuf::from);
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| -> Result<(), Failure> {
        out.write_all(line.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush())
            .map_err(|error| Failure::Output(format!("standard output: {error}")))
    };
    say(format!(r#"{{"ready":"quiche/{quiche}"}}"#))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::Input(format!("standard input: {error}")))?;
        let request: Request = serde_json::from_str(&line)
            .map_err(|error| Failure::Input(format!("{line:?} is no request: {error}")))?;
        let refused = match policy.look_well(clock) {
            Trust::All => policy.check(request.ip, &request.host).err(),
            Trust::Ending | Trust::None => Some(Refusal::Unconfirmed),
        };
        let answer = match refused {
            None => download::run(&request, keys.as_deref(), observer),
            Some(refusal) => Answer {
                end: End::Blocked,
                detail: Some(refusal.to_string()),
                ..Answer::default()
            },
        };
        let text =
            serde_json::to_string(&answer).map_err(|error| Failure::Output(error.to_string()))?;
        say(text)?;
    }
    Ok(())
}

/// The policy that the arguments describe: KIND=VALUE, KIND is blocklist, optout, allow-net or own.
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
