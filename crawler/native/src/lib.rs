//! Reads routing tables (MRT table dumps, RFC 6396), from records to prefixes with their origin AS.
//!
//! | module | |
//! | --- | --- |
//! | `decompress`, `records` | reads bytes, splits them into records |
//! | `entry`, `attributes`, `origin` | a record's prefix, the first route's path, and the origin AS |
//! | [`table`] | origins by prefix, and counts of records without an origin |
//! | [`database`] | writes pyasn's text database |
//! | [`failure`] | errors and exit status |

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

mod attributes;
pub mod database;
mod decompress;
mod entry;
pub mod failure;
mod origin;
mod records;
pub mod table;
