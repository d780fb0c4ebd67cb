//! Finds the AS_PATH among the attributes of a route (RFC 4271 4.3) and splits it into segments.

const AS_PATH: u8 = 2;
const EXTENDED_LENGTH: u8 = 0x10;

/// Bytes of an AS number: TABLE_DUMP has two, TABLE_DUMP_V2 four.
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
    /// Inside a confederation; must not leave it.
    Confederation,
}

/// One segment of a path.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    pub kind: Kind,
    numbers: &'a [u8],
    width: AsWidth,
}

impl<'a> Segment<'a> {
    /// A segment of the AS numbers in `numbers`, each of `width`.
    pub fn new(kind: Kind, numbers: &'a [u8], width: AsWidth) -> Self {
        Self {
            kind,
            numbers,
            width,
        }
    }

    /// Its AS numbers, as written.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = u32> + use<'a> {
        self.numbers.chunks_exact(self.width as usize).map(|bytes| {
            bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u32::from(*byte))
        })
    }
}

/// The segments of a route's path, none if it has no path. `attributes` is what follows their length `stated`,
/// and may be shorter or longer. Attributes behind the path are not looked at. Like pyasn, takes a last
/// attribute that is longer than what is left for as long as it is.
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
