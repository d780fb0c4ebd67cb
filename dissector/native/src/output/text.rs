//! Pieces that text cells are made of.

/// How text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// As the inside of a JSON string.
    Json,
}

/// Appends the first `length` bytes of `piece`. A copy whose length is known at compile time costs a fraction of another.
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
