//! The engine of the resolve stage: queries resolvers for addresses and HTTPS records of many names at a
//! time.
//!
//! A folder holds modules that belong together. They use only modules of their own folder and of the folders
//! above it in this table.
//!
//! | folder | module | |
//! | --- | --- | --- |
//! | `wire` | | DNS messages: writes questions; reads names, records and EDNS |
//! | | [`answer`], [`status`] | reads a message as an answer: status, aliases, records |
//! | `results` | `outcome`, `counts`, `row` | results of questions and of names, counts, and the rows of both |
//! | `questions` | `question` | one question's attempts |
//! | | `table` | names and questions in flight: queues, ids, timers |
//! | | `resolvers`, `checks` | choice of the next resolver; check whether any resolver answers |
//! | `input` | `names`, `answered`, `resume` | reads the names, and skips the ones that an earlier run answered |
//! | | `engine` | the loop; the core provides the sockets (`firstflight_core::connected`) |
//! | `program` | `options`, `setup`, `summary`, `report` | options, start, summary and report of the program |

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod answer;
mod engine;
mod input;
mod program;
mod questions;
mod results;
pub mod status;
pub mod wire;

pub use program::{Options, PROGRAM, run};
