//! The part of the scanner that all engines share: egress policy, rate limits, targets, feed, records,
//! signals.
//!
//! An engine implements a protocol: it writes datagrams and interprets answers. This crate does the rest.
//! Only this crate owns sockets. An engine sends through [`egress`], which checks [`policy`] for every
//! datagram.
//!
//! | module | |
//! | --- | --- |
//! | [`policy`] | whether an address may be contacted: block and opt-out lists, special ranges, the lab |
//! | [`egress`] | hands datagrams to the kernel, within the rate; source ports, transmit stamps |
//! | [`connects`] | TCP connections to targets: the options that a SYN and its SYN-ACK agree on |
//! | [`connected`] | sockets connected to servers that answer questions: fresh ports, TCP, a rate per server |
//! | [`receive`] | reads datagrams, ICMP and transmit stamps |
//! | [`rate_limit`], [`shared_limits`] | limits per run, address and prefix; sharing them |
//! | [`inputs`], [`targets`] | reads the lists; selects the next target |
//! | [`feed`] | commands during a run: planned probes, paused groups |
//! | [`records`] | segments, JSON lines, the summary, counts, resuming |
//! | [`arguments`] | options that engines share |
//! | [`program`] | command line in, exit status out |
//! | [`run`] | a run's loop |
//! | [`conclusion`] | a run's summary, report and exit status |
//! | [`cid`] | connection IDs that identify probes |
//! | [`signals`], [`progress`], [`timers`], [`clock`], [`random`] | |
//!
//! `examples/echo_ping` is the smallest engine.

#![warn(clippy::print_stderr)]

pub mod arguments;
pub mod cid;
pub mod clock;
pub mod conclusion;
pub mod connected;
pub mod connects;
pub mod egress;
mod epoll;
mod error;
pub mod feed;
pub mod host_name;
pub mod inputs;
mod messages;
pub mod policy;
pub mod program;
pub mod progress;
pub mod random;
pub mod rate_limit;
pub mod receive;
pub mod records;
pub mod run;
pub mod shared_limits;
pub mod signals;
pub mod targets;
pub mod timers;
mod whole_file;

pub use error::Failure;
