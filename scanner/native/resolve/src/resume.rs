//! Going on with a run that was interrupted: names that closed segments answer are not asked for again.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use firstflight_core::Failure;
use firstflight_core::records::Segments;

use crate::names::Answered;
use crate::row::Columns;
use crate::status::Status;

/// Returns the lines that the segments answer. A name with a question that was not answered, or that another
/// resolver than those of `labels` answered, is asked for again: its last rows count.
pub fn answered(segments: &Segments<Columns>, labels: &[String]) -> Result<Answered, Failure> {
    let mut answered = Answered::default();
    segments.read_closed("run without --resume, into another folder", |batch| {
        note(batch, labels, &mut answered)
    })?;
    Ok(answered)
}

fn note(batch: &RecordBatch, labels: &[String], answered: &mut Answered) -> Result<(), String> {
    let text = |name: &str| {
        batch
            .column_by_name(name)
            .and_then(|column| column.as_string_opt::<i32>())
    };
    let targets = batch
        .column_by_name("target")
        .and_then(|c| c.as_primitive_opt::<UInt32Type>());
    let (Some(targets), Some(statuses), Some(resolvers)) =
        (targets, text("status"), text("resolver"))
    else {
        return Err("columns are missing".into());
    };
    let silent = |status: &str| {
        Status::ALL
            .iter()
            .any(|s| s.is_silence() && s.name() == status)
    };
    // The rows of a name follow each other, in one segment.
    let mut last = None;
    for row in 0..batch.num_rows() {
        let line = targets.value(row);
        let begins = last.replace(line) != Some(line);
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
    use crate::row::Row;
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
            columns.push(&Row {
                target,
                status,
                resolver,
                ..Row::default()
            });
        }
        let batch = columns.finish(Columns::schema()).unwrap();
        let mut answered = Answered::default();
        note(&batch, &["a".into(), "b".into()], &mut answered).unwrap();
        let found: Vec<u32> = (0..100).filter(|line| answered.contains(*line)).collect();
        assert_eq!(found, [1, 2], "the second time, line 2 was answered");
        let other = batch.project(&[1, 2]).unwrap();
        assert!(note(&other, &[], &mut answered).is_err());
    }
}
