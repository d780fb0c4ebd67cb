//! Text cells and their parts.

use firstflight_records::{Style, Value, write_inside};

/// Appends a cell's text if the column has text.
#[inline(always)]
pub(super) fn write_text(value: Value<'_>, style: Style, out: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
        Value::Texts(_) | Value::Ints(_) => {}
        Value::Text(text) if style == Style::Plain => out.extend_from_slice(text.as_bytes()),
        Value::Text(text) => escape(text, out),
        Value::Shown(shown) => shown.write(style, out),
    }
}

/// Appends `text` as the content of a JSON string.
fn escape(text: &str, out: &mut Vec<u8>) {
    // Some characters outside ASCII are interpreted by a terminal.
    let is_plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    // Without an early exit, many bytes are compared at a time.
    let all = |plain, byte: &u8| plain & is_plain(*byte);
    if text.as_bytes().iter().fold(true, all) {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_inside(out, text);
    }
}

/// Appends the first `length` bytes of `piece`. Copies all of `piece`, because a copy of constant length is much
/// faster.
#[inline(always)]
pub(super) fn write_piece<const N: usize>(piece: &[u8; N], length: usize, out: &mut Vec<u8>) {
    let after = out.len() + length;
    out.extend_from_slice(piece);
    out.truncate(after);
}

/// Appends a number in decimal digits.
pub(super) fn write_number(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends bytes as hex digits.
pub(super) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    // The room is exactly sufficient.
    let _ = const_hex::encode_to_slice(bytes, &mut out[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_where_json_asks_for_it() {
        for plain in ["", "www.example.net", "a\"b\\c\u{1}\n", "\u{e9}\u{7f}"] {
            let text = |style| {
                let mut out = Vec::new();
                write_text(Value::Text(plain), style, &mut out);
                String::from_utf8(out).unwrap()
            };
            assert_eq!(text(Style::Plain), plain);
            let quoted = format!("\"{}\"", text(Style::Json));
            let back: String = serde_json::from_str(&quoted).unwrap();
            assert_eq!(back, plain);
        }
    }

    #[test]
    fn each_special_byte_is_escaped_by_itself() {
        for (plain, escaped) in [
            ("\"", "\\\""),
            ("\\", "\\\\"),
            ("\u{1f}", "\\u001f"),
            ("\n\n", "\\n\\n"),
            (" ", " "),
            ("!#[]~", "!#[]~"),
            ("\u{e9}\u{7f}", "\u{e9}\\u007f"),
            ("\u{85}\u{202e}", "\\u0085\\u202e"),
        ] {
            // After other bytes, which must not change.
            let mut out = b"before".to_vec();
            write_text(Value::Text(plain), Style::Json, &mut out);
            assert_eq!(out, [b"before", escaped.as_bytes()].concat(), "{plain:?}");
        }
    }

    #[test]
    fn cells_without_text_give_none() {
        for value in [
            Value::Null,
            Value::Bool(true),
            Value::Int(5),
            Value::Float(0.5),
        ] {
            let mut out = Vec::new();
            write_text(value, Style::Plain, &mut out);
            assert!(out.is_empty());
        }
    }

    #[test]
    fn pieces_numbers_and_hex_digits_are_appended() {
        let mut out = b"a".to_vec();
        write_piece(b"bcdef", 2, &mut out);
        assert_eq!(out, b"abc");
        write_number(-70, &mut out);
        assert_eq!(out, b"abc-70");
        write_hex(&[0xf0, 0x0a, 1], &mut out);
        assert_eq!(out, b"abc-70f00a01");
        write_hex(&[], &mut out);
        assert_eq!(out, b"abc-70f00a01");
    }
}
