//! The state of reading a capture: the position and faults.

use std::io::{Cursor, Read};

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};

use super::compressed::{Reason, UntilError};
use super::empty::EmptyRun;
use super::pcap::Pcap;
use super::pcapng::Interfaces;
use super::unpadded::Unpadded;
use super::{BUFFER, CaptureError, Captured, Element, Found, Frame, MAX_BLOCK, MAX_BUFFER, Stop};
use crate::net::link;

type Reader<'r> = Box<dyn PcapReaderIterator + Send + 'r>;

/// State after the bytes read.
pub(super) struct Reading<'n> {
    name: &'n str,
    /// Bytes read.
    consumed: u64,
    clock: Clock,
    empty: EmptyRun,
    unpadded: Unpadded,
    /// Offset and link type of the first frame with an unknown link type, in a capture with several interfaces.
    unknown: Option<(u64, i32)>,
    /// Number of the last frame.
    number: u64,
}

impl<'n> Reading<'n> {
    pub(super) fn new(name: &'n str) -> Reading<'n> {
        Reading {
            name,
            consumed: 0,
            clock: Clock::default(),
            empty: EmptyRun::default(),
            unpadded: Unpadded::default(),
            unknown: None,
            number: 0,
        }
    }

    /// Reads the start of a capture, which determines the format.
    pub(super) fn begin<'r, R: Read + Send + 'r, E>(
        &self,
        mut source: UntilError<R>,
        reason: &Reason,
    ) -> Result<Reader<'r>, Stop<E>> {
        // The first read determines the format, so it must not be short (pipes).
        let mut head = Vec::with_capacity(BUFFER);
        source
            .by_ref()
            .take(BUFFER as u64 / 2)
            .read_to_end(&mut head)
            .map_err(|error| self.stop(format!("cannot be read: {error}")))?;
        if let Some(error) = reason.get().filter(|_| head.is_empty()) {
            return Err(self.stop(format!("cannot be read: {error}")));
        }
        if head.is_empty() {
            let what = "is empty: expected a capture in pcap or pcapng format";
            return Err(self.stop(what.into()));
        }
        let begin: Vec<u8> = head.iter().take(16).copied().collect();
        create_reader(BUFFER, Cursor::new(head).chain(source)).map_err(|_| {
            let found = begin.escape_ascii();
            self.stop(format!(
                "is not a capture: expected the header of pcap or pcapng, found \"{found}\""
            ))
        })
    }

    /// Passes on the complete frames in `data`, if the format permits it. Returns their size in bytes, or `None` if
    /// there is no complete frame.
    pub(super) fn whole_frames<E>(
        &mut self,
        data: &[u8],
        visit: &mut impl FnMut(Element<'_>) -> Result<(), E>,
    ) -> Result<Option<usize>, Stop<E>> {
        let Some(pcap) = &self.clock.pcap else {
            return Ok(None);
        };
        let (frames, size) = pcap.frames(data, self.number);
        if frames.is_empty() {
            return Ok(None);
        }
        self.pass_on(Element::Frames(&frames), size, visit)?;
        self.number += frames.len() as u64;
        self.consumed += size as u64;
        Ok(Some(size))
    }

    /// Passes on the relevant content from a block of `size` bytes.
    pub(super) fn block<E>(
        &mut self,
        size: usize,
        block: PcapBlockOwned<'_>,
        visit: &mut impl FnMut(Element<'_>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let found = self.clock.block(block).map_err(|what| self.stop(what))?;
        match found {
            Some(Found::Frame(found)) => {
                self.number += 1;
                if !link::is_known(found.link) {
                    self.unknown.get_or_insert((self.consumed, found.link));
                }
                let frame = Frame {
                    time_ns: found.time_ns,
                    number: self.number,
                    link: found.link,
                    data: found.data,
                    cut: (found.length as usize).saturating_sub(found.data.len()),
                };
                self.pass_on(Element::Frames(std::slice::from_ref(&frame)), size, visit)?;
            }
            Some(Found::Untimed) => {
                self.number += 1;
                self.pass_on(Element::Untimed, size, visit)?;
            }
            Some(Found::KeyLog(text)) => self.pass_on(Element::KeyLog(text), size, visit)?,
            None => {}
        }
        self.consumed += size as u64;
        Ok(())
    }

    /// Passes on an element of `size` bytes, with omitted padding restored.
    fn pass_on<E>(
        &mut self,
        element: Element<'_>,
        size: usize,
        visit: &mut impl FnMut(Element<'_>) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let Element::Frames(frames) = element else {
            return visit(element).map_err(Stop::Visitor);
        };
        let is_unpadded = self
            .clock
            .pcap
            .as_ref()
            .is_some_and(|pcap| pcap.is_unpadded);
        let visited = if is_unpadded {
            visit(Element::Frames(
                &self.unpadded.restored(frames, self.consumed),
            ))
        } else {
            visit(element)
        };
        visited.map_err(Stop::Visitor)?;
        self.empty
            .add(frames, self.consumed, size)
            .map_err(|(at, what)| self.stop_at(at, what))
    }

    /// Returns the fault in a completely read capture, if any.
    pub(super) fn end<E>(&self) -> Result<(), Stop<E>> {
        match (self.unknown, self.unpadded.damaged()) {
            (Some((offset, link)), _) => Err(self.stop_at(offset, link::expected(link))),
            (None, Some((offset, what))) => Err(self.stop_at(offset, what)),
            (None, None) => Ok(()),
        }
    }

    /// Returns the fault if there is no next block, or `None` if it only needs more bytes.
    pub(super) fn fault<I>(&self, error: &PcapError<I>) -> Option<String> {
        Some(match error {
            PcapError::Incomplete(_) => return None,
            PcapError::BufferTooSmall => format!(
                "expected a frame of less than {} bytes, found a longer one",
                self.longest()
            ),
            PcapError::UnexpectedEof => {
                "expected a whole frame, but the capture ends inside it".into()
            }
            _ => "expected the header of a frame or block, found other bytes".into(),
        })
    }

    /// Largest valid block.
    pub(super) fn longest(&self) -> usize {
        if self.clock.pcap.is_some() {
            MAX_BUFFER
        } else {
            MAX_BLOCK
        }
    }

    /// The error if the source failed.
    pub(super) fn unreadable<E>(&self, reason: &Reason) -> Stop<E> {
        let error = reason.get().unwrap_or_default();
        self.stop(format!("cannot be read further: {error}"))
    }

    /// The error with `what` at the current position.
    pub(super) fn stop<E>(&self, what: String) -> Stop<E> {
        self.stop_at(self.consumed, what)
    }

    fn stop_at<E>(&self, offset: u64, what: String) -> Stop<E> {
        Stop::Capture(CaptureError {
            name: self.name.to_owned(),
            offset,
            what,
        })
    }
}

/// Converts the blocks of either format to times and data.
#[derive(Default)]
struct Clock {
    pcap: Option<Pcap>,
    pcapng: Interfaces,
}

impl Clock {
    /// Returns a block's relevant content.
    fn block<'a>(&mut self, block: PcapBlockOwned<'a>) -> Result<Option<Found<'a>>, String> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let pcap = Pcap::new(&header);
                if !link::is_known(pcap.link) {
                    return Err(link::expected(pcap.link));
                }
                self.pcap = Some(pcap);
                Ok(None)
            }
            PcapBlockOwned::Legacy(frame) => {
                let pcap = self
                    .pcap
                    .as_ref()
                    .ok_or("expected a file header before the first frame")?;
                Ok(Some(Found::Frame(Captured {
                    time_ns: pcap.time_ns(&frame),
                    link: pcap.link,
                    data: frame.data,
                    length: frame.origlen,
                })))
            }
            PcapBlockOwned::NG(block) => self.pcapng.block(block),
        }
    }
}
