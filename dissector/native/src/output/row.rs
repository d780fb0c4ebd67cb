//! How a row is handed over: cell by cell, to whatever writes it.

use super::Value;

/// Takes the cells of a row, in the order of its kind's columns.
pub trait Cells {
    fn cell(&mut self, value: Value<'_>);

    /// Takes the next cells. Inlined, so that a cell of known type costs what writing it does.
    #[inline(always)]
    fn put<'v>(&mut self, value: impl Into<Value<'v>>) {
        self.cell(value.into());
    }
}

/// A row of any kind.
pub trait Row {
    /// Hands over every cell.
    fn cells(&self, to: &mut impl Cells);
}

impl Row for [Value<'_>] {
    fn cells(&self, to: &mut impl Cells) {
        for value in self {
            to.cell(value.clone());
        }
    }
}

/// Puts one cell after the other: `put!(to, a, b, c)`.
macro_rules! put {
    ($to:ident, $($value:expr),* $(,)?) => {
        $($to.put($value);)*
    };
}
pub(super) use put;
