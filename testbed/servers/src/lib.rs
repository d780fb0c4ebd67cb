//! Shared code of the testbed's servers in Rust. A server takes the lab's configuration
//! (docs/reference/lab-hosts.md) with one endpoint, and prints `READY` when it listens. With `mode` `iack` it sends an
//! ACK immediately and everything else `delay_us` after the complete ClientHello. With `wait` it sends nothing until
//! then. It keeps handling other events during the delay.
//!
//! | module | |
//! | --- | --- |
//! | [`behaviour`] | the declared behaviour of the endpoint |
//! | [`hello`] | whether the ClientHello is complete |
//! | [`http`] | the bytes that a server sends |
//! | [`tls`] | rustls with ring |
//! | `quinn`, `s2n` | the stacks |

#![forbid(unsafe_code)]

pub mod behaviour;
pub mod hello;
pub mod http;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "s2n")]
pub mod s2n;
pub mod tls;
