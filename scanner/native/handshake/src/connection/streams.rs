//! The request, the response, and the unidirectional streams (RFC 9114).

use std::sync::Arc;

use firstflight_wire::http3::{Http3Error, ResponseStream, UniKind, UniStream, code};
use firstflight_wire::{CryptoStream, Error, Writer, write_stream};

use super::parameters::{Credit, MOST_CONTROL, MOST_RESPONSE, MOST_STREAMS};

/// Our streams (RFC 9000 2.1): the first bidirectional and the first unidirectional stream from a client.
const REQUEST: u64 = 0;
const CONTROL: u64 = 2;

/// Bits of our streams, in [`super::space::Content`].
const REQUEST_BIT: u8 = 1;
const CONTROL_BIT: u8 = 2;

/// Result of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    Response,
    /// The server chose another protocol, so no request was sent.
    NotOffered,
    NoResponse,
    /// The server sent no response, and was silent at the end for longer than the idle timeout.
    Idle,
    Incomplete,
    Reset,
    Malformed,
}

impl Http {
    /// Returns the word used in records.
    pub fn name(self) -> &'static str {
        match self {
            Http::Response => "response",
            Http::NotOffered => "not_offered",
            Http::NoResponse => "no_response",
            Http::Idle => "idle",
            Http::Incomplete => "incomplete",
            Http::Reset => "reset",
            Http::Malformed => "malformed",
        }
    }
}

/// A stream from the server: the bytes in order, and the number of bytes that the parser has read.
struct Incoming {
    bytes: CryptoStream,
    read: usize,
    /// Length of the stream, once the FIN arrived.
    end: Option<u64>,
    /// Maximum number of bytes that the server may send.
    limit: u64,
}

impl Incoming {
    fn new(limit: u64) -> Incoming {
        Incoming {
            bytes: CryptoStream::new(limit as usize),
            read: 0,
            end: None,
            limit,
        }
    }

    /// Processes a STREAM frame. Returns the new bytes that are in order, or an error if the frame exceeds the limit.
    fn insert(&mut self, offset: u64, fin: bool, data: &[u8]) -> Result<&[u8], ()> {
        let end = offset + data.len() as u64;
        if end > self.limit {
            return Err(());
        }
        if fin {
            self.end = Some(end);
        }
        self.bytes.insert(offset, data).map_err(|_| ())?;
        let from = std::mem::replace(&mut self.read, self.bytes.contiguous().len());
        Ok(&self.bytes.contiguous()[from..])
    }

    fn is_complete(&self) -> bool {
        self.end == Some(self.read as u64)
    }
}

/// All streams in a connection.
pub struct Streams {
    request: Box<[u8]>,
    control: Arc<[u8]>,
    /// Bits of the streams to send, and of the acknowledged streams.
    waiting: u8,
    acknowledged: u8,
    pub credit: Credit,
    incoming: Incoming,
    pub response: ResponseStream,
    unis: Vec<(u64, Incoming, UniStream)>,
    reset: bool,
    error: Option<Http3Error>,
    /// HTTP/3 is negotiated. True until the handshake is complete.
    offered: bool,
}

impl Streams {
    /// Creates streams for `control` and `request` (whole, with FIN). [`Self::open`] starts to send them.
    pub fn new(control: Arc<[u8]>, request: Box<[u8]>) -> Streams {
        Streams {
            request,
            control,
            waiting: 0,
            acknowledged: 0,
            credit: Credit::default(),
            incoming: Incoming::new(MOST_RESPONSE),
            response: ResponseStream::new(MOST_RESPONSE as usize),
            unis: Vec::new(),
            reset: false,
            error: None,
            offered: true,
        }
    }

    /// Queues all streams, to be sent within the limits of `credit`.
    pub fn open(&mut self, credit: Credit) {
        self.credit = credit;
        self.waiting = REQUEST_BIT | CONTROL_BIT;
        self.acknowledged = 0;
    }

    /// Starts a new attempt, in which no stream was sent.
    pub fn begin_again(&mut self) {
        self.credit = Credit::default();
        (self.waiting, self.acknowledged) = (0, 0);
    }

    /// Sends no stream, because the server chose another protocol than HTTP/3.
    pub fn close(&mut self) {
        self.offered = false;
    }

    /// Returns whether HTTP/3 is negotiated. Returns true until the handshake is complete.
    pub fn is_offered(&self) -> bool {
        self.offered
    }

    /// Raises the limits to the larger values in `credit`.
    pub fn raise(&mut self, credit: Credit) {
        let Credit {
            data,
            request,
            control,
            streams,
            control_streams,
        } = self.credit;
        self.credit = Credit {
            data: data.max(credit.data),
            request: request.max(credit.request),
            control: control.max(credit.control),
            streams: streams.max(credit.streams),
            control_streams: control_streams.max(credit.control_streams),
        };
    }

    /// Returns the total size of the streams in `bits`.
    pub fn size(&self, bits: u8) -> usize {
        let of = |bit, bytes: &[u8]| if bits & bit != 0 { bytes.len() } else { 0 };
        of(CONTROL_BIT, &self.control) + of(REQUEST_BIT, &self.request)
    }

    /// Returns the bits of the streams that may be sent now.
    pub fn sendable(&self) -> u8 {
        let mut bits = 0;
        let (control, request) = (self.control.len() as u64, self.request.len() as u64);
        let credit = &self.credit;
        if credit.control_streams > 0 && credit.control >= control && credit.data >= control {
            bits |= CONTROL_BIT;
        }
        if credit.streams > 0 && credit.request >= request && credit.data >= control + request {
            bits |= REQUEST_BIT;
        }
        bits & self.waiting
    }

    /// Writes the streams of `bits`.
    pub fn write(&self, w: &mut Writer<'_>, bits: u8) -> Result<(), Error> {
        if bits & CONTROL_BIT != 0 {
            write_stream(w, CONTROL, 0, false, &self.control)?;
        }
        if bits & REQUEST_BIT != 0 {
            write_stream(w, REQUEST, 0, true, &self.request)?;
        }
        Ok(())
    }

    /// Records that the streams of `bits` were sent.
    pub fn mark_sent(&mut self, bits: u8) {
        self.waiting &= !bits;
    }

    /// Records that the streams of `bits` are acknowledged.
    pub fn acknowledge(&mut self, bits: u8) {
        self.acknowledged |= bits;
        self.waiting &= !bits;
    }

    /// Queues unacknowledged streams for retransmission. Returns whether any of these streams may be sent now.
    pub fn send_again(&mut self) -> bool {
        if self.credit != Credit::default() {
            self.waiting = (REQUEST_BIT | CONTROL_BIT) & !self.acknowledged;
        }
        self.sendable() != 0
    }

    /// Processes a STREAM frame. Returns an error if the frame violates QUIC.
    pub fn receive(
        &mut self,
        id: u64,
        offset: u64,
        fin: bool,
        data: &[u8],
    ) -> Result<(), &'static str> {
        const BEYOND: &str = "more stream data than was permitted";
        if id == REQUEST {
            let new = self
                .incoming
                .insert(offset, fin, data)
                .map_err(|()| BEYOND)?;
            if let Err(error) = self.response.push(new) {
                self.error.get_or_insert(error);
            }
            return Ok(());
        }
        if id & 3 != 3 || id >> 2 >= MOST_STREAMS {
            return Err("a stream that was not permitted");
        }
        let place = self.unis.iter().position(|(open, ..)| *open == id);
        let place = place.unwrap_or_else(|| {
            let uni = UniStream::new(MOST_CONTROL as usize);
            self.unis.push((id, Incoming::new(MOST_CONTROL), uni));
            self.unis.len() - 1
        });
        let (_, incoming, uni) = &mut self.unis[place];
        let new = incoming.insert(offset, fin, data).map_err(|()| BEYOND)?;
        let mut read = uni.push(new);
        if incoming.is_complete() {
            read = read.and_then(|()| uni.finish());
        }
        if let Err(error) = read.and_then(|()| self.one_of_its_kind(place)) {
            self.error.get_or_insert(error);
        }
        Ok(())
    }

    /// Checks that no other stream has the type of the stream at `place`, if the type may occur only once (RFC 9114
    /// 6.2.1).
    fn one_of_its_kind(&self, place: usize) -> Result<(), Http3Error> {
        let kind = self.unis[place].2.kind();
        let single = !matches!(kind, None | Some(UniKind::Other(_)));
        let same = |(other, (.., uni)): (usize, &(u64, Incoming, UniStream))| {
            other != place && uni.kind() == kind
        };
        if single && self.unis.iter().enumerate().any(same) {
            return Err(Http3Error {
                code: code::STREAM_CREATION_ERROR,
                cause: "second stream of a kind",
            });
        }
        Ok(())
    }

    /// Processes a reset of a stream by the server.
    pub fn reset(&mut self, id: u64) {
        self.reset |= id == REQUEST;
        let uni = self.unis.iter_mut().find(|(open, ..)| *open == id);
        if let Some(Err(error)) = uni.map(|(.., uni)| uni.finish()) {
            self.error.get_or_insert(error);
        }
    }

    /// Returns the first violation of HTTP/3 by the server.
    pub fn error(&self) -> Option<Http3Error> {
        self.error
    }

    /// Returns the server's settings in wire order, once they arrived.
    pub fn settings(&self) -> Option<&[(u64, u64)]> {
        self.unis.iter().find_map(|(.., uni)| uni.settings())
    }

    /// Returns whether the server sent GOAWAY (RFC 9114 5.2).
    pub fn goaway(&self) -> bool {
        self.unis.iter().any(|(.., uni)| uni.goaway().is_some())
    }

    /// Returns whether no more data is expected: the response is complete, or cannot become complete.
    pub fn is_over(&self) -> bool {
        !self.offered
            || self.error.is_some()
            || self.reset
            || self.incoming.is_complete()
            // The limit of our stream is used up: no more data can arrive.
            || self.incoming.read as u64 == MOST_RESPONSE
    }

    /// Returns the result of the request. Never returns [`Http::Idle`].
    pub fn http(&self) -> Http {
        let ended = self.incoming.is_complete();
        if !self.offered {
            Http::NotOffered
        } else if self.response.response().is_some() {
            Http::Response
        } else if self.error.is_some() {
            Http::Malformed
        } else if self.reset {
            Http::Reset
        } else if ended || self.incoming.read > 0 {
            Http::Incomplete
        } else {
            Http::NoResponse
        }
    }
}
