//! The macro that declares columns.

/// Declares a struct with a field for each column, in order. Implements [`Row`](crate::Row) and
/// [`Record`](crate::Record) for it.
///
/// ```
/// use firstflight_records::{Record, columns};
///
/// columns! {
///     /// Who answered, and when.
///     #[derive(Default)]
///     pub struct ProbeRow<'a> {
///         ip: &'a str,
///         /// Microseconds.
///         ack_us: Option<i64>,
///     }
/// }
/// let [ip, ack_us] = ProbeRow::columns()[..] else { panic!() };
/// assert_eq!((ip.name, ip.nullable, ack_us.nullable), ("ip", false, true));
/// let _ = ProbeRow { ip: "192.0.2.1", ..ProbeRow::default() };
/// ```
#[macro_export]
macro_rules! columns {
    (
        $(#[$meta:meta])*
        $vis:vis struct $row:ident $(<$life:lifetime>)? {
            $($(#[$of_column:meta])* $name:ident: $type:ty,)+
        }
    ) => {
        $(#[$meta])*
        $vis struct $row $(<$life>)? {
            $($(#[$of_column])* pub $name: $type,)+
        }

        impl $(<$life>)? $crate::Row for $row $(<$life>)? {
            #[inline(always)]
            fn visit(&self, to: &mut impl $crate::Visitor) {
                $(to.cell(&self.$name);)+
            }
        }

        impl $(<$life>)? $crate::Record for $row $(<$life>)? {
            fn columns() -> Vec<$crate::Column> {
                vec![$($crate::Column::of::<$type>(stringify!($name))),+]
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{Record, Row, Shown, Style, Type, Value, Visitor};

    columns! {
        struct First<'a> {
            r#type: &'a str,
            count: u64,
        }
    }

    columns! {
        struct Second {
            share: Option<f64>,
            port: u16,
            reset: bool,
        }
    }

    columns! {
        struct Lists<'a> {
            names: &'a [String],
            ttls: &'a [u32],
        }
    }

    #[test]
    fn lists_are_cells() {
        let kinds: Vec<_> = Lists::columns()
            .iter()
            .map(|c| (c.kind.to_string(), c.nullable))
            .collect();
        assert_eq!(
            kinds,
            [
                ("list<string>".into(), false),
                ("list<uint32>".into(), false)
            ]
        );
        let lists = Lists {
            names: &["a".into()],
            ttls: &[],
        };
        assert_eq!(texts(&lists), ["[\"a\"]", "[]"]);
    }

    struct Texts(Vec<String>);

    impl Visitor for Texts {
        fn value(&mut self, value: Value<'_>) {
            self.0.push(match value {
                Value::Null => "null".into(),
                Value::Bool(value) => value.to_string(),
                Value::Int(value) => value.to_string(),
                Value::Float(value) => value.to_string(),
                Value::Text(text) => format!("{text:?}"),
                Value::Shown(shown) => {
                    let mut out = Vec::new();
                    shown.write(Style::Plain, &mut out);
                    String::from_utf8(out).unwrap()
                }
                Value::Texts(texts) => format!("{texts:?}"),
                Value::Ints(numbers) => format!("{numbers:?}"),
            });
        }
    }

    fn texts(row: &impl Row) -> Vec<String> {
        let mut texts = Texts(Vec::new());
        row.visit(&mut texts);
        texts.0
    }

    #[test]
    fn columns_have_the_names_and_types_of_fields() {
        let found: Vec<_> = <(First<'_>, Second)>::columns()
            .into_iter()
            .map(|c| (c.name, c.kind, c.nullable))
            .collect();
        let expected = [
            ("type", Type::String, false),
            ("count", Type::I64, false),
            ("share", Type::F64, true),
            ("port", Type::U16, false),
            ("reset", Type::Bool, false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn cells_come_in_the_order_of_columns() {
        let first = First {
            count: 7,
            r#type: "a",
        };
        for (share, text) in [
            (Some(0.5), "0.5"),
            (Some(f64::INFINITY), "null"),
            (None, "null"),
        ] {
            let first = First { ..first };
            let second = Second {
                reset: true,
                port: 443,
                share,
            };
            let found = texts(&(first, second));
            assert_eq!(found, ["\"a\"", "7", text, "443", "true"]);
        }
    }

    struct Dots(usize);

    impl Shown for Dots {
        fn write(&self, _: Style, out: &mut Vec<u8>) {
            out.resize(out.len() + self.0, b'.');
        }
    }

    #[test]
    fn values_are_a_row_as_well() {
        let dots = Dots(3);
        let row = [Value::Shown(&dots), Value::Null, Value::Int(-1)];
        let mut found = Texts(Vec::new());
        row[..].visit(&mut found);
        assert_eq!(found.0, ["...", "null", "-1"]);
    }
}
