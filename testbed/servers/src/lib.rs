//! What the testbed's servers in Rust share. A server takes the lab's configuration (docs/architecture.md) with one endpoint,
//! prints `READY` when it listens, and answers by `mode`: `iack`, an ACK at once and all else `delay_us` after the
//! ClientHello was complete; `wait`, nothing until then. Meanwhile it goes on with everything else.
//!
//! | module | |
//! | --- | --- |
//! | [`behaviour`] | what the one endpoint declares |
//! | [`hello`] | whether the ClientHello is complete |
//! | [`http`] | what a server sends |
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
