//! Parquet's DELTA_BINARY_PACKED: integers as differences. Each group of 32 uses as many bits as its largest one needs.

/// Number of differences with a common minimum, and number of differences with a common width.
const BLOCK: usize = 128;
const MINIBLOCK: usize = 32;

/// Appends the encoding of `numbers`. Differences wrap around, as the format requires.
pub(super) fn write(numbers: &[i64], out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint((BLOCK / MINIBLOCK) as u64, out);
    varint(numbers.len() as u64, out);
    let Some((first, rest)) = numbers.split_first() else {
        return varint(0, out);
    };
    varint(zigzag(*first), out);
    let mut before = *first;
    for block in rest.chunks(BLOCK) {
        let mut deltas = [0; BLOCK];
        for (delta, number) in deltas.iter_mut().zip(block) {
            *delta = number.wrapping_sub(before);
            before = *number;
        }
        write_block(&mut deltas, block.len(), out);
    }
}

/// Appends the first `count` of `deltas`.
fn write_block(deltas: &mut [i64; BLOCK], count: usize, out: &mut Vec<u8>) {
    let least = deltas[..count].iter().copied().min().unwrap_or(0);
    varint(zigzag(least), out);
    // The padding of the last group has width zero.
    let above = deltas.map(|delta| delta.wrapping_sub(least) as u64);
    let of_count = |i: usize| above.get(i).copied().filter(|_| i < count).unwrap_or(0);
    let mut widths = [0u32; BLOCK / MINIBLOCK];
    for (m, width) in widths.iter_mut().enumerate() {
        let all = (m * MINIBLOCK..(m + 1) * MINIBLOCK).fold(0, |all, i| all | of_count(i));
        *width = u64::BITS - all.leading_zeros();
        out.push(*width as u8);
    }
    for (m, width) in widths.into_iter().enumerate() {
        // Groups after the last number have no bytes.
        if m * MINIBLOCK >= count {
            break;
        }
        pack(
            (m * MINIBLOCK..(m + 1) * MINIBLOCK).map(of_count),
            width,
            out,
        );
    }
}

/// Appends the lowest `width` bits of each number, starting with the lowest bit of each byte.
fn pack(numbers: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let (mut bits, mut held) = (0u64, 0);
    for number in numbers {
        bits |= number << held;
        held += width;
        if held >= u64::BITS {
            out.extend_from_slice(&bits.to_le_bytes());
            held -= u64::BITS;
            // If no bit is held, the whole number was written.
            bits = if held == 0 {
                0
            } else {
                number >> (width - held)
            };
        }
    }
    out.extend_from_slice(&bits.to_le_bytes()[..held.div_ceil(8) as usize]);
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// Appends an unsigned LEB128 number.
pub(super) fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
