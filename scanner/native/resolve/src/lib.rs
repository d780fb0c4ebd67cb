//! The engine of the resolve stage: asks resolvers for addresses and HTTPS records, many names at a time.
//!
//! | module | |
//! | --- | --- |
//! | [`wire`] | messages: questions out, names, records, EDNS in |
//! | [`answer`], [`status`] | what a message answers: status, aliases, records |
//! | `question`, `outcome` | the attempts of a question, and its result |
//! | `table` | names and questions in flight: queues, ids, timers |
//! | `resolvers`, `checks` | who is asked next; whether anybody answers |
//! | `engine` | the loop; sockets are the core's (`firstflight_core::connected`) |
//! | `names`, `answered`, `resume`, `row` | names in, rows out |
//! | `options`, `setup`, `summary`, `report`, `counts` | the program around it |

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod answer;
mod answered;
mod checks;
mod counts;
mod engine;
mod names;
mod options;
mod outcome;
mod question;
mod report;
mod resolvers;
mod resume;
mod row;
mod setup;
pub mod status;
mod summary;
mod table;
pub mod wire;

pub use options::Options;
pub use setup::{PROGRAM, run};
