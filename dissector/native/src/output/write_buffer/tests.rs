//! Bytes written to each kind of destination.

use std::sync::{Arc, Mutex};

use super::*;

#[test]
fn bytes_arrive_in_order_whatever_their_way() {
    for total in [0, 5, BLOCK - 1, BLOCK, 3 * ASIDE + 7] {
        let bytes: Vec<u8> = (0..total).map(|i| (i % 251) as u8).collect();
        let mut own = WriteBuffer::new(Place::Own(nameless().unwrap()));
        own.bytes.extend(b"before");
        for _ in 0..2 {
            let mut aside = WriteBuffer::new(Place::Aside(None));
            for piece in bytes.chunks(1000) {
                aside.bytes.extend_from_slice(piece);
                aside.settle().unwrap();
            }
            let is_spilled = matches!(aside.place, Place::Aside(Some(_)));
            assert_eq!(is_spilled, total > ASIDE);
            own.append(aside).unwrap();
            assert!(own.bytes.len() < BLOCK && own.written.is_multiple_of(BLOCK));
        }
        own.flush().unwrap();
        let Place::Own(mut file) = own.place else {
            unreachable!()
        };
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut found = Vec::new();
        file.read_to_end(&mut found).unwrap();
        assert_eq!(found, [b"before", &bytes[..], &bytes[..]].concat());
    }
}

/// The bytes written, and the number of flushes.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<(Vec<u8>, u32)>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().1 += 1;
        Ok(())
    }
}

/// Bytes that differ from their neighbours.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8).collect()
}

#[test]
fn shared_places_get_64_kb_together() {
    let written = Shared::default();
    let mut buffer = WriteBuffer::new(Place::Shared(Box::new(written.clone())));
    let bytes = pattern(65_536 + 3);
    for (end, expected) in [(65_535, 0), (65_536, 65_536), (65_539, 65_536)] {
        let have = buffer.written + buffer.bytes.len();
        buffer.bytes.extend_from_slice(&bytes[have..end]);
        buffer.settle().unwrap();
        assert_eq!(written.0.lock().unwrap().0.len(), expected, "of {end}");
        assert_eq!(buffer.bytes.len(), end - expected);
    }
    assert_eq!(written.0.lock().unwrap().1, 0);
    buffer.flush().unwrap();
    let written = written.0.lock().unwrap();
    assert_eq!((&written.0, written.1), (&bytes, 1));
}

#[test]
fn files_are_written_by_blocks_of_256_kb() {
    let block = 262_144;
    let mut buffer = WriteBuffer::new(Place::Own(nameless().unwrap()));
    let bytes = pattern(3 * block + 9);
    // (total bytes, bytes in the file).
    for (end, expected) in [
        (block - 1, 0),
        (block, block),
        (block + 5, block),
        (2 * block - 1, block),
        (3 * block + 1, 3 * block),
        (3 * block + 9, 3 * block),
    ] {
        let have = buffer.written + buffer.bytes.len();
        buffer.bytes.extend_from_slice(&bytes[have..end]);
        buffer.settle().unwrap();
        assert_eq!(
            (buffer.written, buffer.bytes.len()),
            (expected, end - expected)
        );
    }
    buffer.flush().unwrap();
    assert_eq!((buffer.written, buffer.bytes.len()), (bytes.len(), 0));
    // After a flush, the next bytes complete the block.
    for (length, written, left) in [(block - 10, 3 * block + 9, block - 10), (1, 4 * block, 0)] {
        buffer.bytes.extend_from_slice(&pattern(length));
        buffer.settle().unwrap();
        assert_eq!((buffer.written, buffer.bytes.len()), (written, left));
    }
}

#[test]
fn a_megabyte_is_kept_in_memory() {
    let mut buffer = WriteBuffer::new(Place::Aside(None));
    let bytes = pattern((1 << 20) + 5);
    for (end, in_file) in [
        ((1 << 20) - 1, 0),
        (1 << 20, 1 << 20),
        ((1 << 20) + 5, 1 << 20),
    ] {
        let have = buffer.written + buffer.bytes.len();
        buffer.bytes.extend_from_slice(&bytes[have..end]);
        buffer.settle().unwrap();
        assert_eq!(
            (buffer.written, buffer.bytes.len()),
            (in_file, end - in_file)
        );
        assert_eq!(matches!(buffer.place, Place::Aside(Some(_))), in_file > 0);
    }
    buffer.flush().unwrap();
    let mut found = Vec::new();
    buffer
        .into_reader()
        .unwrap()
        .read_to_end(&mut found)
        .unwrap();
    assert_eq!(found, bytes);
}

#[test]
fn what_is_appended_to_a_shared_place_is_written_at_once() {
    let written = Shared::default();
    let mut buffer = WriteBuffer::new(Place::Shared(Box::new(written.clone())));
    buffer.bytes.extend(b"before");
    let bytes = pattern(600_000);
    let mut aside = WriteBuffer::new(Place::Aside(None));
    aside.bytes.extend_from_slice(&bytes);
    buffer.append(aside).unwrap();
    assert!(buffer.bytes.is_empty());
    let expected = [b"before", &bytes[..]].concat();
    assert_eq!(written.0.lock().unwrap().0, expected);
    // Appending an empty buffer changes nothing.
    buffer.bytes.extend(b"behind");
    buffer.append(WriteBuffer::new(Place::Aside(None))).unwrap();
    assert_eq!(buffer.bytes, b"behind");
}

#[test]
fn buffers_have_room_for_a_block_and_a_long_row() {
    let shared = Place::Shared(Box::new(io::sink()));
    for (place, room) in [
        (Place::Own(nameless().unwrap()), 262_144 + 8192),
        (shared, 65_536 + 8192),
        (Place::Aside(None), 0),
    ] {
        let capacity = WriteBuffer::new(place).bytes.capacity();
        assert!((room..=room + room / 8).contains(&capacity), "{capacity}");
    }
}
