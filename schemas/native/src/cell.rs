//! Cells: the Rust types for each type of column, and the values that visitors receive.

use std::borrow::Cow;

use crate::Type;

/// A Rust type for a column's cells. `Option` of such a type is for a nullable column.
pub trait Cell {
    const TYPE: Type;
    const NULLABLE: bool;

    fn value(&self) -> Value<'_>;
}

/// A cell's value. Text is borrowed, or produced when it is written.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Finite.
    Float(f64),
    Text(&'a str),
    Shown(&'a dyn Shown),
    Texts(&'a [String]),
    Ints(&'a [u32]),
}

/// How text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    /// As the inside of a JSON string.
    Json,
}

/// A cell in a text column that is stored in another form than text.
pub trait Shown {
    /// Appends the text.
    fn write(&self, style: Style, out: &mut Vec<u8>);
}

impl<T: Cell> Cell for Option<T> {
    const TYPE: Type = T::TYPE;
    const NULLABLE: bool = true;

    #[inline(always)]
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Cell::value)
    }
}

macro_rules! cells {
    ($($rust:ty, $column:ident, |$cell:ident| $value:expr;)*) => {$(
        impl Cell for $rust {
            const TYPE: Type = Type::$column;
            const NULLABLE: bool = false;

            #[inline(always)]
            fn value(&self) -> Value<'_> {
                let $cell = self;
                $value
            }
        }
    )*};
}

cells! {
    bool, Bool, |cell| Value::Bool(*cell);
    u8, U8, |cell| Value::Int(i64::from(*cell));
    u16, U16, |cell| Value::Int(i64::from(*cell));
    u32, U32, |cell| Value::Int(i64::from(*cell));
    i64, I64, |cell| Value::Int(*cell);
    // Integers of QUIC have at most 62 bits; a larger one cannot come from a packet.
    u64, I64, |cell| i64::try_from(*cell).map_or(Value::Null, Value::Int);
    f32, F32, |cell| finite(f64::from(*cell));
    f64, F64, |cell| finite(*cell);
    &str, String, |cell| Value::Text(cell);
    String, String, |cell| Value::Text(cell);
    Cow<'_, str>, String, |cell| Value::Text(cell);
    // A list is never null; an empty one has no value.
    &[String], Strings, |cell| Value::Texts(cell);
    &[u32], U32s, |cell| Value::Ints(cell);
}

/// A number that is not finite is not a measurement.
#[inline(always)]
fn finite(number: f64) -> Value<'static> {
    if number.is_finite() {
        Value::Float(number)
    } else {
        Value::Null
    }
}
