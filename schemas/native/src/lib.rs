//! Rows of record kinds in native programs. Each column is declared once, with its name and Rust type.
//!
//! [`columns!`] declares a struct with the columns in a record kind, or with consecutive columns of it, as fields. The
//! struct defines their names, types and nullability; `schemas/records/KIND.yaml` describes their meaning. A test in
//! each program compares the two with [`difference`]. A row is built with field names and visited in column order
//! ([`Row::visit`]). A [`Visitor`] of the program writes it, as JSON lines, Parquet or Arrow.

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
