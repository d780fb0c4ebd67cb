//! The columns that a file of schemas/records describes, for the tests that compare them with a program's columns.

use crate::column::Column;

/// A column's description: one line, `- {name: ..., type: ..., nullable: true, from: ..., meaning: ...}`, or
/// `- KEY from SOURCE` for the column `KEY: {type: ..., meaning: ...}` of schemas/columns.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Described {
    name: String,
    kind: String,
    nullable: bool,
    /// The stage or program that fills it.
    from: String,
}

/// The columns that schemas/records describes for `kind`, in order. `Err`: the file or line that cannot be read.
fn described(kind: &str) -> Result<Vec<Described>, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read =
        |path: String| std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"));
    let shared = read(format!("{folder}/columns.yaml"))?;
    parse(&read(format!("{folder}/records/{kind}.yaml"))?, &shared)
}

/// Compares `ours` with the columns of `kind` that have a source in `from`. Returns `None` if names, types and
/// nullability are equal, in the same order, else the first difference: described, ours.
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

fn parse(yaml: &str, shared: &str) -> Result<Vec<Described>, String> {
    let columns = yaml.lines().filter_map(|line| line.strip_prefix("  - "));
    columns
        .map(|line| column(line, shared).ok_or_else(|| line.to_owned()))
        .collect()
}

fn column(line: &str, shared: &str) -> Option<Described> {
    let (key, from, line) = match line.split_once(" from ") {
        Some((key, from)) if !line.starts_with('{') => {
            let start = format!("{key}: {{");
            let line = shared.lines().find(|line| line.starts_with(&start))?;
            (Some(key), Some(from), &line[start.len() - 1..])
        }
        _ => (None, None, line),
    };
    // The meaning is the last key, and may contain any text.
    let (keys, _) = line.split_once(", meaning: ")?;
    let keys: Vec<(&str, &str)> = keys
        .trim_start_matches('{')
        .split(", ")
        .filter_map(|pair| pair.split_once(": "))
        .collect();
    let value = |name: &str| keys.iter().find(|pair| pair.0 == name).map(|pair| pair.1);
    Some(Described {
        name: value("name").or(key)?.to_owned(),
        kind: value("type")?.to_owned(),
        nullable: value("nullable") == Some("true"),
        from: from.or_else(|| value("from"))?.to_owned(),
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
            \x20 - {name: b, type: string, from: stage, values: [c, d], meaning: Text.}\n\
            \x20 - c from loader\n\
            \x20 - d from prober\n";
        let shared = "# Shared.\nc: {type: bool, nullable: true, meaning: \"x: y.\"}\n\
            d: {name: e, type: date, meaning: Text.}\n";
        let found = parse(yaml, shared).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|c| (&*c.name, &*c.kind, c.nullable, &*c.from))
            .collect();
        assert_eq!(
            found,
            [
                ("a", "int64", true, "prober"),
                ("b", "string", false, "stage"),
                ("c", "bool", true, "loader"),
                ("e", "date", false, "prober")
            ]
        );
        for wrong in ["  - {name: a, type: int64}", "  - c", "  - f from stage"] {
            assert!(parse(wrong, shared).is_err(), "{wrong}");
        }
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
