//! All integration tests of this crate, as one program. Each further program would have to be linked again.

mod echo_ping;
mod one_way_out;
mod stamps;
