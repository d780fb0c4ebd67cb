//! Routing tables (MRT table dumps, RFC 6396): from records to prefixes with their origin AS.
//!
//! | module | |
//! | --- | --- |
//! | `decompress`, `records` | bytes in, one record after the other |
//! | `entry`, `attributes`, `origin` | a record's prefix, the path of its first route, who announces it |
//! | [`table`] | origins by prefix, and counts of what has none |
//! | [`database`] | pyasn's text database out |
//! | [`failure`] | why it ends, with which exit status |

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
