//! Rows of a capture that wait until those of the captures before it are written: in memory, and beyond a few megabytes in a file
//! without a name.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

use super::Value;
use super::value::Style;
use crate::args::Kind;
use crate::temporary::nameless;

/// Bytes kept in memory.
const IN_MEMORY: usize = 1 << 22;

/// Rows of any kinds, in order.
#[derive(Default)]
pub struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
}

impl Spool {
    /// Appends a row of the kind that stands at `kind` in the list of those asked for.
    pub fn push(&mut self, kind: u8, row: &[Value<'_>]) -> io::Result<()> {
        let out = &mut self.memory;
        out.push(kind);
        out.extend((row.len() as u32).to_le_bytes());
        for value in row {
            match value {
                Value::Null => out.push(0),
                Value::Bool(b) => out.extend([1, u8::from(*b)]),
                Value::Int(i) => {
                    out.push(2);
                    out.extend(i.to_le_bytes());
                }
                Value::Float(f) => {
                    out.push(3);
                    out.extend(f.to_le_bytes());
                }
                text => {
                    out.push(4);
                    let place = out.len();
                    out.extend([0; 8]);
                    text.write_text(Style::Plain, out);
                    let length = (out.len() - place - 8) as u64;
                    out[place..place + 8].copy_from_slice(&length.to_le_bytes());
                }
            }
        }
        if self.memory.len() > IN_MEMORY {
            self.spill()?;
        }
        Ok(())
    }

    /// Hands every row to `write`, with its kind out of `kinds`.
    pub fn replay<E: From<io::Error>>(
        mut self,
        kinds: &[Kind],
        mut write: impl FnMut(Kind, Vec<Value<'static>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let spilled: Box<dyn Read> = match self.file.take() {
            Some(mut file) => {
                file.seek(SeekFrom::Start(0))?;
                Box::new(file)
            }
            None => Box::new(io::empty()),
        };
        let mut rows = BufReader::with_capacity(1 << 16, spilled.chain(&self.memory[..]));
        let mut kind = [0];
        while rows.read(&mut kind)? == 1 {
            let kind = kinds.get(usize::from(kind[0])).ok_or_else(damaged)?;
            let count = u32::from_le_bytes(array(&mut rows)?);
            let row: io::Result<Vec<Value<'static>>> =
                (0..count).map(|_| value(&mut rows)).collect();
            write(*kind, row?)?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless()?),
        };
        file.write_all(&self.memory)?;
        self.memory.clear();
        Ok(())
    }
}

fn value(rows: &mut impl Read) -> io::Result<Value<'static>> {
    let [tag] = array(rows)?;
    Ok(match tag {
        0 => Value::Null,
        1 => Value::Bool(array::<1>(rows)? == [1]),
        2 => Value::Int(i64::from_le_bytes(array(rows)?)),
        3 => Value::Float(f64::from_le_bytes(array(rows)?)),
        4 => {
            let length = u64::from_le_bytes(array(rows)?);
            let mut text = String::new();
            rows.take(length).read_to_string(&mut text)?;
            text.into()
        }
        _ => return Err(damaged()),
    })
}

fn array<const N: usize>(rows: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    rows.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn damaged() -> io::Error {
    io::Error::other("rows put aside in the folder for temporary files were changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_order_from_memory_and_file() {
        let kinds = [Kind::QuicConnection, Kind::TcpFlow];
        let row = |n: i64| {
            vec![
                Value::Null,
                true.into(),
                n.into(),
                0.5.into(),
                "\u{e9}\n".into(),
                Value::from("x".repeat(100)),
            ]
        };
        for count in [0, 3, 60_000] {
            let mut spool = Spool::default();
            for n in 0..count {
                spool.push((n % 2) as u8, &row(n)).unwrap();
            }
            assert_eq!(spool.file.is_some(), count > 1000);
            let mut next = 0;
            spool
                .replay::<io::Error>(&kinds, |kind, found| {
                    assert_eq!((kind, found), (kinds[next as usize % 2], row(next)));
                    next += 1;
                    Ok(())
                })
                .unwrap();
            assert_eq!(next, count);
        }
    }
}
