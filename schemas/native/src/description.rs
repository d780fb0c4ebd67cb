//! The columns that a file of schemas/records describes, for the tests that compare a program's columns with
//! it.

/// A column as it is described: one line, `- {name: ..., type: ..., nullable: true, from: ..., meaning:
/// ...}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub name: String,
    pub kind: String,
    pub nullable: bool,
    /// Who fills it.
    pub from: String,
}

/// The columns that schemas/records describes for `kind`, in order. `Err` says what cannot be read.
pub fn described(kind: &str) -> Result<Vec<Described>, String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../records");
    let path = format!("{folder}/{kind}.yaml");
    let yaml = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    parse(&yaml)
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
    use super::{described, parse};

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
}
