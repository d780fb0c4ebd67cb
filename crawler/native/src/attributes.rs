//! Finds the AS_PATH among a route's attributes (RFC 4271 4.3) and splits it into segments.

const AS_PATH: u8 = 2;
const EXTENDED_LENGTH: u8 = 0x10;

/// Size of an AS number in bytes: two in TABLE_DUMP, four in TABLE_DUMP_V2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AsWidth {
    Two = 2,
    Four = 4,
}

/// Kinds of segments (RFC 4271 4.3, RFC 5065 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Set,
    Sequence,
    /// Within a confederation; must not leave it.
    Confederation,
}

/// One segment in a path.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    pub kind: Kind,
    numbers: &'a [u8],
    width: AsWidth,
}

impl<'a> Segment<'a> {
    /// A segment with the AS numbers in `numbers`, each of `width`.
    pub fn new(kind: Kind, numbers: &'a [u8], width: AsWidth) -> Self {
        Self {
            kind,
            numbers,
            width,
        }
    }

    /// The AS numbers, in the order of the path.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = u32> + use<'a> {
        self.numbers.chunks_exact(self.width as usize).map(|bytes| {
            bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u32::from(*byte))
        })
    }
}

/// Returns the segments in a route's path; no segments if it has no path. `attributes` starts after the length field.
/// `stated` is the value of that field; the actual length may differ. Ignores attributes after the path. Accepts a
/// last attribute whose length exceeds the remaining bytes, and uses these bytes, like pyasn.
pub fn path(
    attributes: &[u8],
    stated: usize,
    width: AsWidth,
) -> Result<Vec<Segment<'_>>, &'static str> {
    const SHORT: &str = "it ends within an attribute";
    let (mut rest, mut left) = (attributes, stated);
    while left > 0 {
        let (length, content, header) = match *rest {
            [flags, _, high, low, ref content @ ..] if flags & EXTENDED_LENGTH != 0 => {
                (u16::from_be_bytes([high, low]).into(), content, 4)
            }
            [flags, _, length, ref content @ ..] if flags & EXTENDED_LENGTH == 0 => {
                (usize::from(length), content, 3)
            }
            _ => return Err(SHORT),
        };
        let (data, behind) = content.split_at(length.min(content.len()));
        if rest[1] == AS_PATH {
            return split(data, width);
        }
        rest = behind;
        left = left.saturating_sub(header + data.len());
    }
    Ok(Vec::new())
}

fn split(mut path: &[u8], width: AsWidth) -> Result<Vec<Segment<'_>>, &'static str> {
    let mut segments = Vec::new();
    while !path.is_empty() {
        let [kind, count, rest @ ..] = path else {
            return Err("its path ends within a segment");
        };
        let kind = match kind {
            1 => Kind::Set,
            2 => Kind::Sequence,
            3 | 4 => Kind::Confederation,
            _ => return Err("its path has a segment of an unknown type"),
        };
        let (numbers, behind) = rest
            .split_at_checked(usize::from(*count) * width as usize)
            .ok_or("its path ends within a segment")?;
        segments.push(Segment::new(kind, numbers, width));
        path = behind;
    }
    Ok(segments)
}

#[cfg(test)]
mod tests;
