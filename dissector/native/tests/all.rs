//! All integration tests of this crate, in one program: each further program would need another link.

mod fuzz;
mod layers;
