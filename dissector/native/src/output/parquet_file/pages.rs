//! A column chunk's pages: an optional dictionary and one data page, with a row group's cells.

use std::io;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use super::delta::varint;

/// The compression of pages, as declared in the file.
pub(super) fn compression() -> Compression {
    Compression::ZSTD(ZstdLevel::default())
}

/// A column's encoded cells in a row group.
pub(super) struct Chunk<'a> {
    /// Distinct values as PLAIN, and their number.
    pub(super) dictionary: Option<(&'a [u8], usize)>,
    /// Levels and values of all cells.
    pub(super) data: &'a [u8],
    pub(super) encoding: Encoding,
    pub(super) rows: usize,
    pub(super) statistics: Statistics,
}

/// Builds pages. All share one compressor, because a new one costs more than a small page.
pub(super) struct Pages {
    compressor: Compressor<'static>,
}

impl Pages {
    pub(super) fn new() -> io::Result<Pages> {
        let level = ZstdLevel::default().compression_level();
        Ok(Pages {
            compressor: Compressor::new(level)?,
        })
    }

    /// Returns a chunk's bytes and the metadata.
    pub(super) fn chunk(
        &mut self,
        column: ColumnDescPtr,
        chunk: Chunk<'_>,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut sink = TrackedWrite::new(Vec::new());
        let mut to = SerializedPageWriter::new(&mut sink);
        let mut encodings = vec![Encoding::PLAIN, Encoding::RLE, chunk.encoding];
        encodings.dedup();
        let dictionary = match chunk.dictionary {
            Some((plain, distinct)) => {
                Some(self.page(&mut to, plain, |buf| Page::DictionaryPage {
                    buf,
                    num_values: distinct as u32,
                    encoding: Encoding::PLAIN,
                    is_sorted: false,
                })?)
            }
            None => None,
        };
        let data = self.page(&mut to, chunk.data, |buf| Page::DataPage {
            buf,
            num_values: chunk.rows as u32,
            encoding: chunk.encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })?;
        let pages = [dictionary.as_ref(), Some(&data)];
        let sum = |size: fn(&PageWriteSpec) -> usize| {
            pages.iter().flatten().map(|page| size(page) as i64).sum()
        };
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(compression())
            .set_encodings(encodings)
            .set_num_values(chunk.rows as i64)
            .set_total_compressed_size(sum(|page| page.compressed_size))
            .set_total_uncompressed_size(sum(|page| page.uncompressed_size))
            .set_dictionary_page_offset(dictionary.as_ref().map(|page| page.offset as i64))
            .set_data_page_offset(data.offset as i64)
            .set_statistics(chunk.statistics)
            .build()?;
        let bytes = Bytes::from(sink.into_inner()?);
        let closed = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: chunk.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, closed))
    }

    fn page(
        &mut self,
        to: &mut impl PageWriter,
        plain: &[u8],
        page: impl FnOnce(Bytes) -> Page,
    ) -> Result<PageWriteSpec, ParquetError> {
        let compressed = self.compressor.compress(plain)?;
        to.write_page(CompressedPage::new(page(compressed.into()), plain.len()))
    }
}

/// Appends the levels of nullable cells: 1 for a value, 0 for null. Uses Parquet's hybrid of runs and packed bits, with
/// its length in front.
pub(super) fn write_levels(levels: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    match levels.first() {
        Some(first) if levels.iter().all(|level| level == first) => {
            varint((levels.len() as u64) << 1, out);
            out.push(*first);
        }
        _ => {
            varint(((levels.len().div_ceil(8) as u64) << 1) | 1, out);
            write_bits(levels, out);
        }
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends bytes that are 0 or 1 as bits, lowest bit first.
pub(super) fn write_bits(bits: &[u8], out: &mut Vec<u8>) {
    out.extend(bits.chunks(8).map(|eight| {
        eight
            .iter()
            .enumerate()
            .fold(0, |byte, (i, bit)| byte | (bit << i))
    }));
}

/// Appends indices into a dictionary of `distinct` values. Each index has a whole number of bytes, because that
/// compresses better than fewer bits.
pub(super) fn write_indices(indices: &[u16], distinct: usize, out: &mut Vec<u8>) {
    let eights = indices.len().div_ceil(8);
    if distinct <= 1 {
        out.push(1);
        varint((indices.len() as u64) << 1, out);
        return out.push(0);
    }
    let bytes = if distinct <= 256 { 1 } else { 2 };
    out.push(8 * bytes);
    varint(((eights as u64) << 1) | 1, out);
    let end = out.len() + 8 * eights * usize::from(bytes);
    if bytes == 1 {
        out.extend(indices.iter().map(|index| *index as u8));
    } else {
        out.extend(indices.iter().flat_map(|index| index.to_le_bytes()));
    }
    out.resize(end, 0);
}
