//! The engine of the resolve stage: queries resolvers for addresses and HTTPS records of many names at a
//! time.
//!
//! | module | |
//! | --- | --- |
//! | [`wire`] | DNS messages: writes questions; reads names, records and EDNS |
//! | [`answer`], [`status`] | reads a message as an answer: status, aliases, records |
//! | `question`, `outcome` | a question's attempts, and the result |
//! | `table` | names and questions in flight: queues, ids, timers |
//! | `resolvers`, `checks` | choice of the next resolver; check whether any resolver answers |
//! | `engine` | the loop; the core provides the sockets (`firstflight_core::connected`) |
//! | `names`, `answered`, `resume`, `row` | input of names, output of rows |
//! | `options`, `setup`, `summary`, `report`, `counts` | options, start, summary and progress of the program |

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
