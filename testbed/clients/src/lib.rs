//! What the testbed's clients in Rust share: a request a line in, an answer a line out (`downloader/clients/contract.py`), TLS with
//! ring, and the bytes of one HTTP/3 request. A client is a file of `src/bin`, or a package of its own (`testbed/clients/tquic`, `msquic`, `quiche`): how its
//! stack makes a connection and exchanges bytes.
//!
//! | module | |
//! | --- | --- |
//! | [`contract`] | requests and answers |
//! | [`http`] | what a client sends and reads |
//! | [`own_log`] | the log that a stack writes of a connection |
//! | [`own_tls`] | for stacks with TLS of their own: roots, key log |
//! | [`program`] | arguments, permitted networks, the loop over requests |
//! | `runtime`, `tls` | tokio for each request; roots and key log (feature `runtime`) |

pub mod contract;
pub mod http;
pub mod own_log;
pub mod own_tls;
pub mod program;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "runtime")]
pub mod tls;
