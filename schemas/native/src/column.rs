//! Columns, as known at compile time.

use std::fmt;

use crate::Cell;

/// Types of columns, by the names in schemas/records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    String,
    Bool,
    U8,
    U16,
    U32,
    I64,
    F32,
    F64,
    /// Texts.
    Strings,
    U32s,
}

impl Type {
    /// Every type, lists last.
    pub const ALL: [Type; 10] = [
        Type::String,
        Type::Bool,
        Type::U8,
        Type::U16,
        Type::U32,
        Type::I64,
        Type::F32,
        Type::F64,
        Type::Strings,
        Type::U32s,
    ];
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::String => "string",
            Type::Bool => "bool",
            Type::U8 => "uint8",
            Type::U16 => "uint16",
            Type::U32 => "uint32",
            Type::I64 => "int64",
            Type::F32 => "float32",
            Type::F64 => "float64",
            Type::Strings => "list<string>",
            Type::U32s => "list<uint32>",
        })
    }
}

/// A column in a record kind. schemas/records holds units and meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Type,
    pub nullable: bool,
}

impl Column {
    /// The column that cells of type `T` fill. `field` is the name of a Rust field, so `r#type` names the
    /// column `type`.
    pub fn of<T: Cell>(field: &'static str) -> Column {
        Column {
            name: field.strip_prefix("r#").unwrap_or(field),
            kind: T::TYPE,
            nullable: T::NULLABLE,
        }
    }
}
