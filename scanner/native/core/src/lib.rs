//! The part of the scanner that all engines share: egress policy, rate limits, targets, feed, records,
//! signals.
//!
//! An engine implements a protocol: it writes datagrams and interprets answers. This crate does the rest.
//! Only this crate owns sockets. An engine sends through [`egress`], which checks [`policy`] for every
//! datagram.
//!
//! A folder holds modules that belong together. They use only modules of their own folder and of the folders
//! above it in this table.
//!
//! | folder | module | |
//! | --- | --- | --- |
//! | | [`clock`], [`timers`], [`random`], [`host_name`] | |
//! | | [`cid`] | connection IDs that identify probes |
//! | `limits` | [`policy`] | whether an address may be contacted: block and opt-out lists, special ranges, the lab |
//! | | [`rate_limit`], [`shared_limits`] | limits per run, address and prefix; sharing them |
//! | `input` | [`lists`] | reads and checks the lists |
//! | | [`targets`] | selects the next target |
//! | `sockets` | [`egress`] | hands datagrams to the kernel, within the rate; source ports, transmit stamps |
//! | | [`connects`] | TCP connections to targets: the options that a SYN and its SYN-ACK agree on |
//! | | [`connected`] | sockets connected to servers that answer questions: fresh ports, TCP, a rate per server |
//! | | [`receive`] | reads datagrams, ICMP and transmit stamps |
//! | `output` | [`records`] | segments, JSON lines, the summary, counts, resuming |
//! | | [`progress`] | a bar, lines or a file about the progress |
//! | `runs` | [`arguments`] | options that engines share |
//! | | [`program`] | command line in, exit status out |
//! | | [`run`] | a run's loop |
//! | | [`feed`] | commands during a run: planned probes, paused groups |
//! | | [`signals`] | SIGINT and SIGTERM |
//! | | [`conclusion`] | a run's summary, report and exit status |
//!
//! `examples/echo_ping` is the smallest engine.

#![warn(clippy::print_stderr)]

pub mod cid;
pub mod clock;
mod error;
pub mod host_name;
mod input;
mod limits;
mod output;
pub mod random;
mod runs;
mod sockets;
pub mod timers;

pub use error::Failure;
pub use input::{lists, targets};
pub use limits::{policy, rate_limit, shared_limits};
pub use output::{progress, records};
pub use runs::{arguments, conclusion, feed, program, run, signals};
pub use sockets::{connected, connects, egress, receive};
