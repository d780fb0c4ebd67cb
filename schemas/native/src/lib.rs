//! Rows of record kinds in native programs: each column is declared once, by name and Rust type.
//!
//! [`columns!`] declares a struct whose fields are the columns of a record kind, or a run of them; their
//! names, types and nullability follow from it, and `schemas/records/KIND.yaml` says what they mean.
//! [`described`] reads that file, so that a test in each program compares the two. A row is built by field
//! name and visited in column order ([`Row::visit`]); what writes it is a [`Visitor`] of the program: JSON
//! lines, Parquet, Arrow.

#![forbid(unsafe_code)]

mod cell;
mod column;
mod columns;
mod description;
mod json;
mod row;

pub use cell::{Cell, Shown, Style, Value};
pub use column::{Column, Type};
pub use description::difference;
pub use json::{write_inside, write_json};
pub use row::{Record, Row, Visitor};
