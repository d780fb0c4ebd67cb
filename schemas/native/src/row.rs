//! Rows, and visitors for their cells.

use crate::{Cell, Column, Value};

/// Receives a row's cells, in column order.
pub trait Visitor {
    fn value(&mut self, value: Value<'_>);

    /// Receives a cell. Inlined, so that a cell with a known type costs no more than writing it.
    #[inline(always)]
    fn cell(&mut self, cell: &impl Cell) {
        self.value(cell.value());
    }
}

/// Cells in the order of their columns.
pub trait Row {
    /// Passes every cell to `to`.
    fn visit(&self, to: &mut impl Visitor);
}

/// A row with known columns.
pub trait Record: Row {
    fn columns() -> Vec<Column>;
}

impl Row for [Value<'_>] {
    fn visit(&self, to: &mut impl Visitor) {
        for value in self {
            to.value(*value);
        }
    }
}

/// Implements both traits for tuples, in which runs of columns follow each other.
macro_rules! tuples {
    ($($($part:ident)+;)*) => {$(
        impl<$($part: Row),+> Row for ($($part,)+) {
            #[inline(always)]
            fn visit(&self, to: &mut impl Visitor) {
                #[allow(non_snake_case)]
                let ($($part,)+) = self;
                $($part.visit(to);)+
            }
        }

        impl<$($part: Record),+> Record for ($($part,)+) {
            fn columns() -> Vec<Column> {
                [$($part::columns()),+].concat()
            }
        }
    )*};
}

tuples! {
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}
