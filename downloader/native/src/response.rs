//! Header sections and bodies of responses, without I/O. The data is untrusted: it is counted, truncated and compared.

use firstflight_contract::{ClientAnswer, End, Method, Request};

/// Why a download failed, with a message.
pub type Failed = (End, String);

const MOST_HEADERS: usize = 100;
/// The longest body: the maximum of a signed 64-bit column.
const LONGEST_BODY: u64 = i64::MAX.unsigned_abs();
/// Number of characters to keep from a name or a value.
const LONGEST_HEADER: usize = 500;

/// Processes a header section of (name, value) fields. Keeps the first section that is not informational (RFC 9110
/// 15.2). Later sections are trailers and have no effect.
pub fn take_headers<'a>(
    answer: &mut ClientAnswer,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
) -> Result<(), Failed> {
    if answer.http_version.is_some() {
        return Ok(());
    }
    let value_of = |wanted: &'static [u8]| {
        let found = fields.clone().filter(move |(name, _)| *name == wanted);
        found.map(|(_, value)| shortened(value)).next()
    };
    answer.status = value_of(b":status").and_then(|value| number(&value));
    if answer
        .status
        .is_some_and(|status| (100..200).contains(&status))
    {
        return Ok(());
    }
    answer.http_version = Some("3");
    let mut lengths = fields
        .clone()
        .filter(|(name, _)| *name == b"content-length")
        .map(|(_, value)| {
            number::<u64>(&shortened(value)).filter(|length| *length <= LONGEST_BODY)
        });
    if let Some(first) = lengths.next() {
        let Some(length) = first.filter(|_| lengths.all(|other| other == first)) else {
            let detail = "Content-Length is not one number of at most 63 bits (RFC 9110 8.6)";
            return Err((End::Failed, detail.to_owned()));
        };
        answer.content_length = Some(length);
    }
    let headers = answer.headers.get_or_insert_default();
    for (name, value) in fields
        .filter(|(name, _)| !name.starts_with(b":"))
        .take(MOST_HEADERS)
    {
        let kept = headers.entry(shortened(name));
        kept.or_insert_with(|| shortened(value));
    }
    Ok(())
}

/// Counts bytes of the body. Returns `Some` if the limit is reached.
pub fn take_body(answer: &mut ClientAnswer, bytes: usize, request: &Request) -> Option<End> {
    answer.body_bytes += bytes as u64;
    (answer.body_bytes >= request.max_bytes).then(|| {
        answer.body_bytes = request.max_bytes;
        End::Limit
    })
}

/// How a response ended, after the end of the stream.
pub fn end(answer: &ClientAnswer, method: Method) -> Result<End, Failed> {
    // In an answer to HEAD, Content-Length is the length that GET would return (RFC 9110 9.3.2).
    let Some(length) = answer.content_length.filter(|_| method == Method::Get) else {
        return Ok(End::Complete);
    };
    match answer.body_bytes.cmp(&length) {
        std::cmp::Ordering::Less => Ok(End::Short),
        std::cmp::Ordering::Equal => Ok(End::Complete),
        std::cmp::Ordering::Greater => Err((
            End::Failed,
            "the body is longer than its Content-Length (RFC 9114 4.1.2)".to_owned(),
        )),
    }
}

/// The first characters of text from a server.
pub fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST_HEADER)]);
    text.chars().take(LONGEST_HEADER).collect()
}

/// Parses digits only: `parse` would accept a sign.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn section(fields: &[(&str, &str)]) -> Result<ClientAnswer, Failed> {
        let mut answer = ClientAnswer::default();
        take(&mut answer, fields)?;
        Ok(answer)
    }

    fn take(answer: &mut ClientAnswer, fields: &[(&str, &str)]) -> Result<(), Failed> {
        let bytes = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        take_headers(answer, bytes)
    }

    fn headers(answer: &ClientAnswer) -> &BTreeMap<String, String> {
        answer.headers.as_ref().expect("a header section")
    }

    #[test]
    fn a_status_is_three_digits_or_none() {
        for (value, expected) in [
            ("200", Some(200)),
            ("+200", None),
            ("-1", None),
            ("70000", None),
            ("", None),
            ("2 0", None),
        ] {
            let answer = section(&[(":status", value)]).expect("no length");
            assert_eq!(answer.status, expected, "{value:?}");
            assert_eq!(answer.http_version, Some("3"));
        }
    }

    #[test]
    fn lengths_are_one_number() {
        let length = |value| ("content-length", value);
        for (fields, expected) in [
            (vec![], Some(None)),
            (vec![length("7")], Some(Some(7))),
            (vec![length("7"), length("7")], Some(Some(7))),
            (vec![length("7"), length("8")], None),
            (vec![length("7, 7")], None),
            (vec![length("-7")], None),
            (vec![length("+7")], None),
            (
                vec![length("9223372036854775807")],
                Some(Some(LONGEST_BODY)),
            ),
            (vec![length("9223372036854775808")], None),
            (vec![length("18446744073709551616")], None),
            (vec![length("")], None),
        ] {
            let found = section(&fields).map(|answer| answer.content_length).ok();
            assert_eq!(found, expected, "{fields:?}");
        }
    }

    #[test]
    fn informational_sections_and_trailers_change_nothing() {
        let mut answer = section(&[(":status", "103"), ("etag", "early")]).expect("no length");
        assert_eq!((answer.http_version, &answer.headers), (None, &None));
        take(&mut answer, &[(":status", "200"), ("content-length", "9")]).expect("a length");
        take(
            &mut answer,
            &[
                (":status", "404"),
                ("content-length", "x"),
                ("etag", "late"),
            ],
        )
        .expect("ignored");
        assert_eq!((answer.status, answer.content_length), (Some(200), Some(9)));
        assert_eq!(headers(&answer).get("etag"), None);
    }

    #[test]
    fn giant_sections_are_cut() {
        let long = "x".repeat(1 << 20);
        let names: Vec<String> = (0..10_000).map(|number| format!("h{number}")).collect();
        let fields: Vec<(&str, &str)> = names
            .iter()
            .map(|name| (name.as_str(), long.as_str()))
            .collect();
        let answer = section(&fields).expect("no length");
        assert_eq!(headers(&answer).len(), MOST_HEADERS);
        assert!(
            headers(&answer)
                .values()
                .all(|value| value.len() == LONGEST_HEADER)
        );
        // Each byte that is not valid UTF-8 becomes one character.
        assert_eq!(shortened(&[0xff; 9000]).chars().count(), LONGEST_HEADER);
        // Keeps the first header for each name.
        let twice = section(&[("etag", "a"), ("etag", "b")]).expect("no length");
        assert_eq!(headers(&twice)["etag"], "a");
    }

    #[test]
    fn a_body_is_held_against_its_length() {
        for (body, length, method, expected) in [
            (7, Some(7), Method::Get, Ok(End::Complete)),
            (7, None, Method::Get, Ok(End::Complete)),
            (6, Some(7), Method::Get, Ok(End::Short)),
            (8, Some(7), Method::Get, Err(End::Failed)),
            (0, Some(7), Method::Head, Ok(End::Complete)),
        ] {
            let answer = ClientAnswer {
                body_bytes: body,
                content_length: length,
                ..ClientAnswer::default()
            };
            assert_eq!(end(&answer, method).map_err(|(end, _)| end), expected);
        }
    }

    #[test]
    fn a_body_ends_at_the_limit() {
        let request = crate::tests::request(10);
        let mut answer = ClientAnswer::default();
        assert_eq!(take_body(&mut answer, 9, &request), None);
        assert_eq!(take_body(&mut answer, 5, &request), Some(End::Limit));
        assert_eq!(answer.body_bytes, 10);
    }
}
