//! All integration tests of this crate, as one program: each further one would be linked again.

mod echo_ping;
mod one_way_out;
mod stamps;
