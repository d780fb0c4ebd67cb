//! The response over HTTP/3: chosen headers into the handshake's row, everything into a row of its own.

use firstflight_core::targets::Target;
use firstflight_wire::http3::{FieldSection, setting};
use serde_json::Value;

use super::{Sides, int};
use crate::connection::Connection;
use crate::row::{ResponseRow, Row, Text};

/// Fills what `connection` was answered into `row`, and the row of the response.
pub fn fill<'a>(
    row: &mut Row<'a>,
    connection: &'a Connection,
    target: &Target<'a>,
    sides: &mut Sides,
) {
    let streams = connection.streams();
    let Some(response) = streams.response.response() else {
        return;
    };
    let value = |name| response.fields.get(name).map(String::from_utf8_lossy);
    row.status = Some(response.status);
    row.server_header = value("server");
    row.edge_location = edge_location(&response.fields);
    let Some(segments) = &mut sides.responses else {
        return;
    };
    let settings = streams.settings();
    let of = |id| {
        let found = settings?.iter().find(|(this, _)| *this == id);
        found.map(|(_, value)| int(*value))
    };
    segments.push(
        &ResponseRow {
            domain: target.domain.into(),
            ip: target.ip_text.into(),
            port: target.port,
            sent_at: row.sent_at,
            status: row.status,
            headers: headers(&response.fields).into(),
            header_bytes: response.fields.size() as u32,
            server: value("server"),
            alt_svc: value("alt-svc"),
            via: value("via"),
            location: value("location"),
            cf_ray: value("cf-ray"),
            x_amz_cf_pop: value("x-amz-cf-pop"),
            x_cache: value("x-cache"),
            x_served_by: value("x-served-by"),
            age: value("age"),
            settings: settings.map(|settings| settings_text(settings).into()),
            qpack_max_table_capacity: of(setting::QPACK_MAX_TABLE_CAPACITY),
            qpack_blocked_streams: of(setting::QPACK_BLOCKED_STREAMS),
            max_field_section_size: of(setting::MAX_FIELD_SECTION_SIZE),
            goaway: streams.goaway(),
        },
        0,
    );
}

/// Returns the header section as JSON: [name, value] of each field in wire order.
fn headers(fields: &FieldSection) -> String {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    let all = fields
        .iter()
        .map(|(name, value)| Value::from(vec![text(name), text(value)]));
    Value::Array(all.collect()).to_string()
}

/// Returns settings as JSON, identifiers as names, in wire order.
fn settings_text(settings: &[(u64, u64)]) -> String {
    let all: Vec<String> = settings
        .iter()
        .map(|(id, value)| format!("\"{id:#x}\":{value}"))
        .collect();
    format!("{{{}}}", all.join(","))
}

/// Returns where the edge is that answered, in the words of its CDN: the airport of a cf-ray (Cloudflare),
/// x-amz-cf-pop (CloudFront), the last place of x-served-by (Fastly).
fn edge_location(fields: &FieldSection) -> Option<Text<'static>> {
    let value = |name| Some(String::from_utf8_lossy(fields.get(name)?).into_owned());
    let of_ray = || {
        let ray = value("cf-ray")?;
        let (_, place) = ray.rsplit_once('-')?;
        place_name(place)
    };
    let of_pop = || place_name(&value("x-amz-cf-pop")?);
    let of_served_by = || {
        let list = value("x-served-by")?;
        let last = list.rsplit(',').next()?.trim().to_owned();
        place_name(last.rsplit_once('-')?.1)
    };
    of_ray()
        .or_else(of_pop)
        .or_else(of_served_by)
        .map(Text::from)
}

/// Returns a name of a place, if it can be one.
fn place_name(text: &str) -> Option<String> {
    let fits = (3..=16).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_wire::Writer;
    use firstflight_wire::http3::{ResponseStream, write_request};

    fn fields(given: &[(&str, &str)]) -> FieldSection {
        let mut out = [0; 400];
        let mut w = Writer::new(&mut out);
        let all: Vec<_> = [(":status", "200")].iter().chain(given).copied().collect();
        write_request(&mut w, &all).unwrap();
        let mut stream = ResponseStream::new(4096);
        stream.push(w.written()).unwrap();
        stream.response().unwrap().fields.clone()
    }

    #[test]
    fn edges_say_where_they_are() {
        for (given, expected) in [
            (vec![("cf-ray", "8f3a1b2c3d4e5f60-FRA")], Some("FRA")),
            (vec![("x-amz-cf-pop", "HAM50-P2")], Some("HAM50-P2")),
            (
                vec![(
                    "x-served-by",
                    "cache-lga21950-LGA, cache-fra-eddf8230057-FRA",
                )],
                Some("FRA"),
            ),
            (vec![("cf-ray", "8f3a")], None),
            (vec![("x-amz-cf-pop", "<script>")], None),
            (vec![("x-served-by", "cache-x")], None),
            (vec![], None),
        ] {
            let found = edge_location(&fields(&given));
            assert_eq!(found.as_deref(), expected, "{given:?}");
        }
    }

    #[test]
    fn headers_and_settings_keep_their_order() {
        let fields = fields(&[("server", "a \"quoted\" one"), ("via", "x"), ("age", "1")]);
        assert_eq!(
            headers(&fields),
            r#"[["server","a \"quoted\" one"],["via","x"],["age","1"]]"#
        );
        assert_eq!(settings_text(&[(6, 9), (1, 0)]), r#"{"0x6":9,"0x1":0}"#);
    }
}
