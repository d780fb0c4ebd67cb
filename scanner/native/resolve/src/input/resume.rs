//! Resumes an interrupted run: skips the names that closed segments answer.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use firstflight_core::Failure;
use firstflight_core::records::{Refused, Segments};

use crate::input::answered::Answered;
use crate::results::row::Columns;
use crate::status::Status;
use crate::wire::types::QType;

/// Returns the lines that the segments answer. A name is resolved again if a question has no answer, or if a
/// resolver outside of `labels` answered it; its last rows count. Names with other types than `types` are an error
/// of usage.
pub fn answered(
    segments: &Segments<Columns>,
    labels: &[String],
    types: &[QType],
) -> Result<Answered, Failure> {
    let mut answered = Answered::default();
    segments.read_closed("run without --resume, into another folder", |_, batch| {
        note(batch, labels, types, &mut answered)
    })?;
    Ok(answered)
}

fn note(
    batch: &RecordBatch,
    labels: &[String],
    types: &[QType],
    answered: &mut Answered,
) -> Result<(), Refused> {
    let text = |name: &str| {
        batch
            .column_by_name(name)
            .and_then(|column| column.as_string_opt::<i32>())
    };
    let targets = batch
        .column_by_name("target")
        .and_then(|c| c.as_primitive_opt::<UInt32Type>());
    let (Some(targets), Some(domains), Some(qtypes), Some(statuses), Some(resolvers)) = (
        targets,
        text("domain"),
        text("qtype"),
        text("status"),
        text("resolver"),
    ) else {
        return Err(Refused::Unreadable("columns are missing".into()));
    };
    let silent = |status: &str| {
        Status::ALL
            .iter()
            .any(|s| s.is_silence() && s.name() == status)
    };
    // A name's rows are consecutive, in one segment.
    let (mut last, mut asked) = (None, Vec::new());
    for row in 0..batch.num_rows() {
        let line = targets.value(row);
        let begins = last.replace(line) != Some(line);
        if begins {
            answered.note(line, domains.value(row));
            asked.clear();
        }
        let qtype = qtypes.value(row);
        if !asked.contains(&qtype) {
            asked.push(qtype);
        }
        let ends = row + 1 == batch.num_rows() || targets.value(row + 1) != line;
        let is_of = |qtype: &QType| asked.contains(&qtype.name());
        if ends && (asked.len() != types.len() || !types.iter().all(is_of)) {
            return Err(Refused::WrongUse(format!(
                "--resume: line {line} of the names was asked for {}; give the --types of the first run",
                asked.join(",")
            )));
        }
        let usable = !silent(statuses.value(row))
            && labels.iter().any(|label| label == resolvers.value(row));
        if begins || !usable {
            answered.set(line, usable);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::row::DnsAnswerRow;
    use firstflight_core::records::Columns as _;

    #[test]
    fn unanswered_names_are_asked_for_again() {
        let mut columns = Columns::default();
        for (target, status, resolver) in [
            (1, "NOERROR", "a"),
            (1, "NODATA", "a"),
            (2, "TIMEOUT", "a"),
            (2, "NOERROR", "a"),
            (3, "NOERROR", "a"),
            (3, "NETWORK", "a"),
            (4, "NOERROR", "other"),
            (2, "SERVFAIL", "b"),
        ] {
            columns.push(&DnsAnswerRow {
                target,
                status,
                resolver,
                qtype: "A",
                ..DnsAnswerRow::default()
            });
        }
        let batch = columns.finish(Columns::schema()).unwrap();
        let mut answered = Answered::default();
        let labels = ["a".into(), "b".into()];
        assert!(note(&batch, &labels, &[QType::A], &mut answered).is_ok());
        let found: Vec<u32> = (0..100).filter(|line| answered.contains(*line)).collect();
        assert_eq!(found, [1, 2], "the second time, line 2 was answered");
        let other = batch.project(&[1, 2]).unwrap();
        assert!(note(&other, &[], &[QType::A], &mut answered).is_err());
    }

    #[test]
    fn other_types_than_those_of_the_segments_are_refused() {
        let mut columns = Columns::default();
        for (target, qtype) in [(1, "A"), (1, "A"), (1, "AAAA"), (2, "A"), (2, "AAAA")] {
            columns.push(&DnsAnswerRow {
                target,
                qtype,
                ..DnsAnswerRow::default()
            });
        }
        let batch = columns.finish(Columns::schema()).unwrap();
        for (types, is_good) in [
            (vec![QType::Aaaa, QType::A], true),
            (vec![QType::A], false),
            (vec![QType::A, QType::Mx], false),
            (vec![QType::A, QType::Aaaa, QType::Mx], false),
        ] {
            let noted = note(&batch, &[], &types, &mut Answered::default());
            let is_refused = matches!(noted, Err(Refused::WrongUse(_)));
            assert_eq!(
                (noted.is_ok(), is_refused),
                (is_good, !is_good),
                "{types:?}"
            );
        }
    }
}
