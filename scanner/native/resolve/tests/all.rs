//! All integration tests of this crate, as one program: each further one would be linked again.

mod broken_server;
mod fuzz;
mod named;
