//! The part of the scanner that all engines share: egress policy, rate limits, targets, feed, records,
//! signals.
//!
//! An engine implements a protocol: it writes datagrams and interprets answers. This crate does the rest.
//! It alone owns sockets; an engine sends through [`egress`], which asks [`policy`] about every datagram.
//!
//! | module | |
//! | --- | --- |
//! | [`policy`] | may this address be contacted: block and opt-out lists, special ranges, the lab |
//! | [`egress`] | hands datagrams to the kernel, within the rate; source ports, transmit stamps |
//! | [`connects`] | TCP connections to targets: what a SYN and its answer agree on |
//! | [`connected`] | sockets connected to servers that are asked: fresh ports, TCP, a rate per server |
//! | [`receive`] | reads datagrams, ICMP and transmit stamps |
//! | [`rate_limit`], [`shared_limits`] | limits per run, address and prefix; sharing them |
//! | [`inputs`], [`targets`] | reads the lists; which target is next |
//! | [`feed`] | commands while a run goes on: planned probes, paused groups |
//! | [`records`] | segments, JSON lines, the summary, counts, resuming |
//! | [`arguments`] | options that engines share |
//! | [`program`] | command line in, exit status out |
//! | [`conclusion`] | summary, report and exit status of a run |
//! | [`cid`] | connection IDs by which an engine knows its probes |
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
pub mod inputs;
mod messages;
pub mod policy;
pub mod program;
pub mod progress;
pub mod random;
pub mod rate_limit;
pub mod receive;
pub mod records;
pub mod shared_limits;
pub mod signals;
pub mod targets;
pub mod timers;
mod whole_file;

pub use error::Failure;
