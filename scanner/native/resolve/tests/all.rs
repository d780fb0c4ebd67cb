//! All integration tests of this crate in one program, because each program costs another link step.

mod broken_server;
mod fuzz;
mod named;
