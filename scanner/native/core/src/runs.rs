//! A run from the command line to the exit status.

pub mod arguments;
pub mod conclusion;
pub mod feed;
pub mod program;
pub mod run;
pub mod signals;
