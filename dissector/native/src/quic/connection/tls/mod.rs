//! The messages of the TLS handshake: the client's hello, and the server's flight.

mod flight;
mod hello;

pub use flight::ServerFields;
pub(super) use flight::{NOTHING, ServerFlight};
pub use hello::HelloFields;
pub(super) use hello::HelloReader;
