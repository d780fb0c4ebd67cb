//! The HTTP/3 response. Selected headers are in the handshake's row. A separate row has all headers.

use firstflight_core::targets::Target;
use firstflight_wire::http3::{FieldSection, setting};

use super::{RowContext, Sides, int};
use crate::cdn::edge;
use crate::connection::Connection;
use crate::row::{HandshakeRow, ResponseRow, Text};

/// Fills `row` from the response in `connection`, and writes the row of the response.
pub fn fill<'a>(
    row: &mut HandshakeRow<'a>,
    connection: &'a Connection,
    target: &Target<'a>,
    context: &RowContext,
    sides: &mut Sides,
) {
    let streams = connection.streams();
    let Some(response) = streams.response.response() else {
        return;
    };
    let value = |name| response.fields.get(name).map(String::from_utf8_lossy);
    row.status = Some(response.status);
    row.server_header = value("server");
    let rules = context.rules.as_ref();
    row.cdn_by_header = rules.map(|rules| rules.by_headers(&response.fields).to_owned().into());
    row.edge_location = edge::location(&response.fields).map(Text::from);
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
    let all: Vec<_> = fields
        .iter()
        .map(|(name, value)| [name, value].map(String::from_utf8_lossy))
        .collect();
    // Serializing a list of texts cannot fail.
    serde_json::to_string(&all).unwrap_or_default()
}

/// Returns settings as JSON in wire order. The names are the identifiers.
fn settings_text(settings: &[(u64, u64)]) -> String {
    let all: Vec<String> = settings
        .iter()
        .map(|(id, value)| format!("\"{id:#x}\":{value}"))
        .collect();
    format!("{{{}}}", all.join(","))
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
    fn headers_and_settings_keep_their_order() {
        let fields = fields(&[("server", "a \"quoted\" one"), ("via", "x"), ("age", "1")]);
        assert_eq!(
            headers(&fields),
            r#"[["server","a \"quoted\" one"],["via","x"],["age","1"]]"#
        );
        assert_eq!(settings_text(&[(6, 9), (1, 0)]), r#"{"0x6":9,"0x1":0}"#);
    }
}
