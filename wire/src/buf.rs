//! A checked reader of bytes and a checked writer into a fixed buffer, with the variable-length integers of QUIC
//! (RFC 9000 16).

use crate::Error;

/// Largest value of a variable-length integer.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// Returns the number of bytes in the shortest encoding of `value`, or `None` above [`VARINT_MAX`].
pub const fn varint_len(value: u64) -> Option<usize> {
    match value {
        0..=0x3f => Some(1),
        0x40..=0x3fff => Some(2),
        0x4000..=0x3fff_ffff => Some(4),
        0x4000_0000..=VARINT_MAX => Some(8),
        _ => None,
    }
}

/// Reads from the front of a byte slice. Every method returns [`Error::Truncated`] instead of reading past the end.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Returns the unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of unread bytes.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Returns whether all bytes are read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Error> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(Error::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    /// Reads the next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(Error::Truncated)?;
        self.rest = tail;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[b]| b)
    }

    pub fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads three bytes, most significant first (TLS handshake lengths).
    pub fn u24(&mut self) -> Result<u32, Error> {
        self.array::<3>()
            .map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a variable-length integer.
    pub fn varint(&mut self) -> Result<u64, Error> {
        // The two highest bits give the length and are not part of the value.
        match self.rest.first().ok_or(Error::Truncated)? >> 6 {
            0 => self.u8().map(u64::from),
            1 => self.u16().map(|value| u64::from(value & 0x3fff)),
            2 => self.u32().map(|value| u64::from(value & 0x3fff_ffff)),
            _ => self
                .array()
                .map(|bytes| u64::from_be_bytes(bytes) & VARINT_MAX),
        }
    }

    /// Reads a length as a variable-length integer, and that number of bytes.
    pub fn varint_bytes(&mut self) -> Result<&'a [u8], Error> {
        let n = usize::try_from(self.varint()?).map_err(|_| Error::Truncated)?;
        self.bytes(n)
    }

    /// Reads a TLS vector with a length field of 1 byte.
    pub fn vec8(&mut self) -> Result<&'a [u8], Error> {
        let n = usize::from(self.u8()?);
        self.bytes(n)
    }

    /// Reads a TLS vector with a length field of two bytes.
    pub fn vec16(&mut self) -> Result<&'a [u8], Error> {
        let n = usize::from(self.u16()?);
        self.bytes(n)
    }

    /// Skips zero bytes (PADDING frames) and returns their number.
    pub fn skip_zeros(&mut self) -> usize {
        const ZEROS: [u8; 32] = [0; 32];
        let mut n = 0;
        while self.rest[n..].first_chunk::<32>() == Some(&ZEROS) {
            n += 32;
        }
        n += self.rest[n..]
            .iter()
            .position(|&b| b != 0)
            .unwrap_or(self.rest.len() - n);
        self.rest = &self.rest[n..];
        n
    }
}

/// Writes into a fixed buffer. Every method returns [`Error::NoRoom`] instead of writing past the end.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Returns a writer at the start of `buf`.
    pub fn new(buf: &'a mut [u8]) -> Self {
        Writer { buf, at: 0 }
    }

    /// Returns the number of bytes written.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes that can still be written.
    pub fn room(&self) -> usize {
        self.buf.len() - self.at
    }

    /// Returns the written bytes.
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.at]
    }

    fn take(&mut self, n: usize) -> Result<&mut [u8], Error> {
        let end = self.at.checked_add(n).ok_or(Error::NoRoom)?;
        let place = self.buf.get_mut(self.at..end).ok_or(Error::NoRoom)?;
        self.at = end;
        Ok(place)
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.take(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    pub fn u8(&mut self, value: u8) -> Result<(), Error> {
        self.bytes(&[value])
    }

    pub fn u16(&mut self, value: u16) -> Result<(), Error> {
        self.bytes(&value.to_be_bytes())
    }

    pub fn u32(&mut self, value: u32) -> Result<(), Error> {
        self.bytes(&value.to_be_bytes())
    }

    /// Writes `n` zero bytes. In a packet payload they are `n` PADDING frames.
    pub fn zeros(&mut self, n: usize) -> Result<(), Error> {
        self.take(n)?.fill(0);
        Ok(())
    }

    /// Writes a variable-length integer in the shortest form.
    pub fn varint(&mut self, value: u64) -> Result<(), Error> {
        match varint_len(value) {
            Some(1) => self.u8(value as u8),
            Some(2) => self.u16(value as u16 | 0x4000),
            Some(4) => self.u32(value as u32 | 0x8000_0000),
            Some(_) => self.bytes(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
            None => Err(Error::NoRoom),
        }
    }

    /// Writes a variable-length integer in exactly two bytes, for length fields that are patched later.
    pub fn varint2(&mut self, value: usize) -> Result<(), Error> {
        let value = u16::try_from(value)
            .ok()
            .filter(|&v| v < 0x4000)
            .ok_or(Error::NoRoom)?;
        self.u16(value | 0x4000)
    }

    /// Writes a byte string after the length as a variable-length integer.
    pub fn varint_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.varint(bytes.len() as u64)?;
        self.bytes(bytes)
    }

    /// Writes a TLS vector: length in one byte, then the bytes.
    pub fn vec8(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.u8(u8::try_from(bytes.len()).map_err(|_| Error::NoRoom)?)?;
        self.bytes(bytes)
    }

    /// Writes a TLS vector: length in two bytes, then the output of `fill`.
    pub fn vec16(
        &mut self,
        fill: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = self.at;
        self.u16(0)?;
        fill(self)?;
        let len = u16::try_from(self.at - start - 2).map_err(|_| Error::NoRoom)?;
        self.buf[start..start + 2].copy_from_slice(&len.to_be_bytes());
        Ok(())
    }

    /// Writes the output of `fill` after the length as a variable-length integer of two bytes.
    pub fn varint_sized(
        &mut self,
        fill: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = self.at;
        self.varint2(0)?;
        fill(self)?;
        let end = std::mem::replace(&mut self.at, start);
        let patched = self.varint2(end - start - 2);
        self.at = end;
        patched
    }

    /// Writes a TLS handshake message: type, length in three bytes, then the output of `fill` (RFC 8446 4).
    pub fn message(
        &mut self,
        kind: u8,
        fill: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = self.at;
        self.bytes(&[kind, 0, 0, 0])?;
        fill(self)?;
        let len = u32::try_from(self.at - start - 4).map_err(|_| Error::NoRoom)?;
        let [top, rest @ ..] = len.to_be_bytes();
        if top != 0 {
            return Err(Error::NoRoom);
        }
        self.buf[start + 1..start + 4].copy_from_slice(&rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_rfc_9000_a1() {
        for (bytes, value) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(Reader::new(bytes).varint(), Ok(value));
            let mut out = [0; 8];
            let mut w = Writer::new(&mut out);
            w.varint(value).unwrap();
            assert_eq!(w.written(), bytes);
            assert_eq!(
                Reader::new(&bytes[..bytes.len() - 1]).varint(),
                Err(Error::Truncated)
            );
        }
        assert_eq!(
            Reader::new(&[0x40, 0x25]).varint(),
            Ok(37),
            "longer forms are allowed"
        );
        assert_eq!(
            Writer::new(&mut [0; 16]).varint(VARINT_MAX + 1),
            Err(Error::NoRoom)
        );
    }

    #[test]
    fn zeros_are_skipped_to_the_first_other_byte() {
        for n in [0, 1, 31, 32, 33, 64, 100] {
            let mut bytes = vec![0; n];
            assert_eq!(Reader::new(&bytes).skip_zeros(), n);
            bytes.extend([1, 0]);
            let mut r = Reader::new(&bytes);
            assert_eq!((r.skip_zeros(), r.rest()), (n, &[1, 0][..]));
        }
    }

    #[test]
    fn nothing_is_written_past_the_end() {
        let mut out = [0; 3];
        let mut w = Writer::new(&mut out);
        w.u16(1).unwrap();
        assert_eq!(w.u16(2), Err(Error::NoRoom));
        assert_eq!(w.vec16(|w| w.u8(0)), Err(Error::NoRoom));
        assert_eq!(w.position(), 2);
    }

    #[test]
    fn lengths_are_written_before_what_they_count() {
        let mut out = vec![0; 20_000];
        for (size, head) in [
            (0, Some([0x40, 0])),
            (300, Some([0x41, 0x2c])),
            (16_383, Some([0x7f, 0xff])),
            (16_384, None),
        ] {
            let mut w = Writer::new(&mut out);
            let written = w.varint_sized(|w| w.bytes(&vec![7; size]));
            assert_eq!(written.is_ok(), head.is_some());
            assert_eq!(w.position(), size + 2);
            assert!(
                head.is_none_or(
                    |head| w.written()[..2] == head && w.written()[2..] == vec![7; size]
                )
            );
        }
    }
}
