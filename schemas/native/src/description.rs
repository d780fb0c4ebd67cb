//! The columns that a file of schemas/records describes, for the tests that compare a program's columns with
//! it.

use crate::column::Column;

/// A column as it is described: one line, `- {name: ..., type: ..., nullable: true, from: ..., meaning:
/// ...}`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Described {
    name: String,
    kind: String,
    nullable: bool,
    /// Who fills it.
    from: String,
}

/// The columns that schemas/records describes for `kind`, in order. `Err` says what cannot be read.
fn described(kind: &str) -> Result<Vec<Described>, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../records");
    let path = format!("{folder}/{kind}.yaml");
    let yaml = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    parse(&yaml)
}

/// Compares columns with those of `kind` that have one of the sources `from`; `None` if names, types and
/// nullability are the same, in this order, else the first that differ: described, ours.
pub fn difference(kind: &str, from: &[&str], ours: &[Column]) -> Option<String> {
    let mut described = match described(kind) {
        Ok(columns) => columns.into_iter().filter(|c| from.contains(&&*c.from)),
        Err(why) => return Some(why),
    };
    let mut ours = ours.iter();
    loop {
        match (described.next(), ours.next()) {
            (None, None) => return None,
            (Some(d), Some(c))
                if (&*d.name, &*d.kind, d.nullable)
                    == (c.name, &*c.kind.to_string(), c.nullable) => {}
            (described, ours) => return Some(format!("{described:?}, {ours:?}")),
        }
    }
}

fn parse(yaml: &str) -> Result<Vec<Described>, String> {
    let columns = yaml.lines().filter(|line| line.starts_with("  - {"));
    columns
        .map(|line| column(line).ok_or_else(|| line.to_owned()))
        .collect()
}

fn column(line: &str) -> Option<Described> {
    // The meaning comes last, and may hold anything.
    let (keys, _) = line.split_once(", meaning: ")?;
    let value = |key: &str| {
        let rest = keys.split_once(&format!("{key}: "))?.1;
        rest.split(',').next().map(str::to_owned)
    };
    Some(Described {
        name: value("{name")?,
        kind: value(" type")?,
        nullable: value(" nullable").as_deref() == Some("true"),
        from: value(" from")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Type;

    #[test]
    fn columns_are_read_in_order() {
        let yaml = "kind: k\ncolumns:\n\
            \x20 - {name: a, type: int64, unit: us, nullable: true, from: prober, meaning: \"x, from: y.\"}\n\
            \x20 - {name: b, type: string, from: stage, values: [c, d], meaning: Text.}\n";
        let found = parse(yaml).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|c| (&*c.name, &*c.kind, c.nullable, &*c.from))
            .collect();
        assert_eq!(
            found,
            [
                ("a", "int64", true, "prober"),
                ("b", "string", false, "stage")
            ]
        );
        assert!(parse("  - {name: a, type: int64}").is_err());
    }

    #[test]
    fn a_kind_is_found_by_its_name() {
        let columns = described("quic_packet").unwrap();
        assert_eq!(columns[0].name, "source_file");
        assert!(described("no_such_kind").is_err());
    }

    #[test]
    fn every_difference_of_columns_is_found() {
        let columns: Vec<(String, Type, bool)> = described("tcp_flow")
            .unwrap()
            .into_iter()
            .filter(|column| column.from == "dissector")
            .map(|c| {
                let mut all = Type::ALL.into_iter();
                let kind = all.find(|kind| kind.to_string() == c.kind);
                (c.name, kind.unwrap(), c.nullable)
            })
            .collect();
        let same: Vec<Column> = columns
            .iter()
            .map(|(name, kind, nullable)| Column {
                name: Box::leak(name.clone().into_boxed_str()),
                kind: *kind,
                nullable: *nullable,
            })
            .collect();
        let found = |columns: &[Column]| difference("tcp_flow", &["dissector"], columns);
        assert_eq!(found(&same), None);
        assert!(found(&same[1..]).is_some() && found(&same[..same.len() - 1]).is_some());
        assert!(found(&[&same[..], &same[..1]].concat()).is_some());
        let changes: [fn(&mut Column); 3] = [
            |column| column.name = "other",
            |column| column.kind = Type::U32s,
            |column| column.nullable = !column.nullable,
        ];
        for change in changes {
            let mut other = same.clone();
            change(&mut other[2]);
            assert!(found(&other).is_some(), "{:?}", other[2]);
        }
        assert!(difference("no_such_kind", &[], &[]).is_some());
    }
}
