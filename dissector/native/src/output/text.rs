//! Text cells, and the pieces that they are made of.

use firstflight_records::{Style, Value, write_json};

/// Appends the text of a cell of a text column; nothing for other cells.
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

/// Appends `text` as the inside of a JSON string.
fn escape(text: &str, out: &mut Vec<u8>) {
    // Beyond ASCII there are characters that a terminal interprets.
    let is_printable = |byte: u8| (0x20..0x7f).contains(&byte);
    let is_quoted = |byte: u8| byte == b'"' || byte == b'\\';
    let bytes = text.as_bytes();
    // Without an early end, the search is done many bytes at a time.
    let (printable, quoted) = bytes
        .iter()
        .fold((true, false), |(printable, quoted), byte| {
            (printable & is_printable(*byte), quoted | is_quoted(*byte))
        });
    match (printable, quoted) {
        (true, false) => out.extend_from_slice(bytes),
        // JSON in a cell has a quote every few bytes.
        (true, true) => escape_quotes(bytes, out),
        (false, _) => {
            let start = out.len();
            // A string always has a JSON form, and a vector takes it.
            let _ = write_json(&mut *out, text);
            out.pop();
            out.remove(start);
        }
    }
}

/// Appends ASCII text with a backslash before each quote and backslash: eight bytes are looked at together, and what
/// lies between two quotes is copied as eight bytes of which the next piece overwrites those that are too many.
fn escape_quotes(ascii: &[u8], out: &mut Vec<u8>) {
    const WORD: usize = size_of::<u64>();
    const BYTE: usize = u8::BITS as usize;
    const LOW: u64 = u64::MAX / 0xff;
    const HIGH: u64 = LOW << 7;
    let start = out.len();
    out.resize(start + 2 * ascii.len() + 2 * WORD, 0);
    let to = &mut out[start..];
    let mut at = 0;
    let (words, rest) = ascii.as_chunks::<WORD>();
    for word in words {
        let mut word = u64::from_le_bytes(*word);
        // No byte has its highest bit, so only a difference of zero leaves it set.
        let is = |byte: u8| HIGH - (word ^ (LOW * u64::from(byte)));
        let mut quotes = (is(b'"') | is(b'\\')) & HIGH;
        let mut left = WORD;
        while quotes != 0 {
            let before = quotes.trailing_zeros() as usize / BYTE;
            to[at..at + WORD].copy_from_slice(&word.to_le_bytes());
            to[at + before] = b'\\';
            to[at + before + 1] = (word >> (BYTE * before)) as u8;
            at += before + 2;
            left -= before + 1;
            // In two steps: all of the word may be taken.
            word = word >> (BYTE * before) >> BYTE;
            quotes = quotes >> (BYTE * before) >> BYTE;
        }
        to[at..at + WORD].copy_from_slice(&word.to_le_bytes());
        at += left;
    }
    for byte in rest {
        if *byte == b'"' || *byte == b'\\' {
            to[at] = b'\\';
            at += 1;
        }
        to[at] = *byte;
        at += 1;
    }
    out.truncate(start + at);
}

/// Appends the first `length` bytes of `piece`. A copy whose length is known at compile time costs a fraction
/// of another.
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
    // There is room for just as many.
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
            // Behind other bytes, which stay.
            let mut out = b"before".to_vec();
            write_text(Value::Text(plain), Style::Json, &mut out);
            assert_eq!(out, [b"before", escaped.as_bytes()].concat(), "{plain:?}");
        }
    }

    #[test]
    fn quotes_are_escaped_wherever_they_stand() {
        // All places in three words and what is left of a fourth, alone, in pairs and in rows.
        for length in 0..30 {
            for (step, special) in [(1, '"'), (2, '\\'), (3, '"'), (5, '\\'), (40, '"')] {
                for first in 0..length {
                    let character = |i: usize| match i >= first && (i - first).is_multiple_of(step)
                    {
                        true => special,
                        false => char::from(b' ' + (i as u8 * 7 + 1) % 95),
                    };
                    let plain: String = (0..length).map(character).collect();
                    let mut out = b"before".to_vec();
                    write_text(Value::Text(&plain), Style::Json, &mut out);
                    let quoted = serde_json::to_string(&plain).unwrap();
                    let expected = format!("before{}", &quoted[1..quoted.len() - 1]);
                    assert_eq!(String::from_utf8(out).unwrap(), expected, "{plain:?}");
                }
            }
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
