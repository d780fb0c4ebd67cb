//! Shared code of the testbed's clients in Rust: the program around an exchange, TLS with ring, and the bytes of one
//! HTTP/3 request. `firstflight_contract` has requests and answers. A client is a file in `src/bin` or a standalone
//! package (`testbed/clients/tquic`, `msquic`, `quiche`). It makes connections and exchanges bytes with its stack.
//!
//! | module | |
//! | --- | --- |
//! | [`http`] | bytes that a client sends and reads |
//! | [`own_log`] | the qlog file for a connection |
//! | [`own_tls`] | roots and key log, for stacks that include TLS |
//! | [`program`] | arguments, permitted networks, progress of a request |
//! | `runtime`, `tls` | tokio for each request; roots and key log (feature `runtime`) |

pub mod http;
pub mod own_log;
pub mod own_tls;
pub mod program;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "runtime")]
pub mod tls;

pub use firstflight_contract::{End, Request};

/// Returns an error, in one sentence, unless a request asks to verify the certificate.
fn verifies(request: &Request) -> Result<(), String> {
    match request.verify {
        true => Ok(()),
        false => Err("this client always verifies: leave `verify` true".to_owned()),
    }
}
