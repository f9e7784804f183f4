//! MLLP framing: VT, content, FS, CR ⇄ bytes on a stream.
//!
//! Lives here: the decoder's states and what each departure from the framing becomes. Does not: sockets, clocks.
//! Contract: the events of a stream do not depend on how it was cut into reads; each byte is searched once; the buffer
//! never needs more than one frame and one read.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::{memchr, memchr2};
use tokio_util::codec::{Decoder, Encoder};

use crate::Limits;

/// Start of a block.
pub(crate) const VT: u8 = 0x0b;
/// End of a block, before the CR.
pub(crate) const FS: u8 = 0x1c;
const CR: u8 = b'\r';
const LF: u8 = b'\n';

/// One thing read from a stream. `Debug` shows sizes, never content.
#[derive(Clone, PartialEq, Eq)]
pub enum Received {
    /// The content between VT and FS CR.
    Frame(Bytes),
    /// A frame that did not end as it should.
    Quarantined {
        /// What is wrong with it.
        fault: Fault,
        /// Its content; of an oversize frame the first `head_bytes_max`.
        head: Bytes,
        /// Length of the whole content; with [`OnOversize::Close`] the rest is not read and this is the limit plus one.
        content_bytes: u64,
    },
}

/// Why a frame is quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A VT came inside it: the sender broke off and began again.
    Truncated,
    /// Its content is longer than `frame_bytes_max`.
    Oversize,
    /// No CR after the FS (strict listeners only).
    EndWithoutReturn,
    /// The stream ended, or time ran out, before its end.
    Unfinished,
}

/// What ends a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameEnd {
    /// FS CR; also FS alone before a VT, another FS, an LF, or the end of the stream. An FS before any other byte is
    /// content, so that a stray one cannot make half a message pass for a whole one.
    #[default]
    Lenient,
    /// FS CR and nothing else.
    Strict,
}

/// What follows an oversize frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOversize {
    /// Its rest is skipped, the connection goes on.
    #[default]
    Skip,
    /// It is reported at once and the stream is given up.
    Close,
}

/// Where in the stream the decoder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No frame is open.
    Between,
    /// Inside a frame.
    Open,
    /// Behind an FS that may end the frame, before the byte that decides it.
    AwaitingReturn,
}

/// Bytes skipped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// LF and CR between frames.
    pub line_end_bytes: usize,
    /// NUL between frames.
    pub nul_bytes: usize,
    /// FS between frames.
    pub end_bytes: usize,
    /// VT repeated at the start of a frame.
    pub start_bytes: usize,
    /// Anything else between frames.
    pub other_bytes: usize,
}

/// The stream can't be read on.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The peer sends something that is not MLLP.
    #[error("no start of frame within {bytes_max} bytes")]
    Preamble {
        /// `preamble_bytes_max`.
        bytes_max: usize,
    },
    /// After an oversize frame, with [`OnOversize::Close`].
    #[error("frame longer than {bytes_max} bytes")]
    Oversize {
        /// `frame_bytes_max`.
        bytes_max: usize,
    },
    /// The stream failed.
    #[error("stream failed")]
    Io(#[from] std::io::Error),
}

/// Content can't be framed.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// MLLP has no escape for its delimiters.
    #[error("content has a frame delimiter (VT or FS) at byte {offset}")]
    Delimiter {
        /// Where, from 0.
        offset: usize,
    },
    /// The stream failed.
    #[error("stream failed")]
    Io(#[from] std::io::Error),
}

/// Decoder of frames into [`Received`], encoder of contents into frames.
#[derive(Debug)]
pub struct Codec {
    end: FrameEnd,
    on_oversize: OnOversize,
    frame_bytes_max: usize,
    head_bytes_max: usize,
    preamble_bytes_max: usize,
    state: State,
    /// Bytes of the buffer, from its start, that were searched already.
    searched: usize,
    skipped: Skipped,
    frames_begun: u64,
}

#[derive(Debug)]
enum State {
    Between { preamble_bytes: usize },
    Open,
    Oversize { head: Bytes, content_bytes: u64 },
    GivenUp,
}

enum Step {
    Wait,
    Again,
    Event(Received),
}

impl Codec {
    /// A codec between two frames.
    pub fn new(limits: &Limits, end: FrameEnd, on_oversize: OnOversize) -> Self {
        Self {
            end,
            on_oversize,
            frame_bytes_max: limits.frame_bytes_max,
            head_bytes_max: limits.head_bytes_max.min(limits.frame_bytes_max),
            preamble_bytes_max: limits.preamble_bytes_max,
            state: State::Between { preamble_bytes: 0 },
            searched: 0,
            skipped: Skipped::default(),
            frames_begun: 0,
        }
    }

    /// Bytes skipped so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Number of frames whose VT was seen; tells one open frame from the next.
    pub fn frames_begun(&self) -> u64 {
        self.frames_begun
    }

    /// Where the decoder is, given the bytes it left in `buffer`.
    pub fn progress(&self, buffer: &BytesMut) -> Progress {
        match self.state {
            State::Between { .. } | State::GivenUp => Progress::Between,
            // After decoding, a byte not searched is an FS at the end of what was read.
            State::Open | State::Oversize { .. } if self.searched < buffer.len() => Progress::AwaitingReturn,
            State::Open | State::Oversize { .. } => Progress::Open,
        }
    }

    /// Ends the open frame here, because the stream ended or time ran out: `None` if there is none, or only its VT.
    /// Call it after [`Decoder::decode`] returned `None`.
    pub fn cut(&mut self, buffer: &mut BytesMut) -> Option<Received> {
        let progress = self.progress(buffer);
        let fault = match (progress, self.end) {
            (Progress::Between, _) => return None,
            (Progress::Open, _) => Some(Fault::Unfinished),
            (Progress::AwaitingReturn, FrameEnd::Strict) => Some(Fault::EndWithoutReturn),
            (Progress::AwaitingReturn, FrameEnd::Lenient) => None,
        };
        let end = self.searched.min(buffer.len());
        let only_start = progress == Progress::Open && end == 0 && matches!(self.state, State::Open);
        let received = self.take(buffer, end, fault);
        buffer.clear();
        if only_start {
            self.skipped.start_bytes = self.skipped.start_bytes.saturating_add(1);
            return None;
        }
        Some(received)
    }

    fn find_start(&mut self, buffer: &mut BytesMut, preamble_bytes: usize) -> Result<bool, DecodeError> {
        let start = memchr(VT, buffer);
        let junk_bytes = start.unwrap_or(buffer.len());
        let allowed = self.preamble_bytes_max.saturating_sub(preamble_bytes);
        for &byte in buffer.iter().take(junk_bytes.min(allowed)) {
            let reason = match byte {
                CR | LF => &mut self.skipped.line_end_bytes,
                0 => &mut self.skipped.nul_bytes,
                FS => &mut self.skipped.end_bytes,
                _ => &mut self.skipped.other_bytes,
            };
            *reason = reason.saturating_add(1);
        }
        if junk_bytes > allowed {
            self.state = State::Between { preamble_bytes: self.preamble_bytes_max };
            return Err(DecodeError::Preamble { bytes_max: self.preamble_bytes_max });
        }
        buffer.advance(junk_bytes);
        if start.is_some() {
            buffer.advance(1);
            self.begin();
        } else {
            self.state = State::Between { preamble_bytes: preamble_bytes.saturating_add(junk_bytes) };
        }
        Ok(start.is_some())
    }

    fn begin(&mut self) {
        self.state = State::Open;
        self.searched = 0;
        self.frames_begun = self.frames_begun.saturating_add(1);
    }

    fn find_end(&mut self, buffer: &mut BytesMut) -> Step {
        let rest = buffer.get(self.searched..).unwrap_or_default();
        let found = memchr2(VT, FS, rest).map(|at| at.saturating_add(self.searched));
        self.searched = found.unwrap_or(buffer.len());
        if let Some(event) = self.bound(buffer) {
            return Step::Event(event);
        }
        let end = self.searched;
        match (buffer.get(end).copied(), buffer.get(end.saturating_add(1)).copied()) {
            (None, _) | (Some(FS), None) => Step::Wait,
            (Some(FS), Some(next)) => self.at_end(buffer, end, next),
            (Some(_), _) => {
                let empty = end == 0 && matches!(self.state, State::Open);
                if empty {
                    self.skipped.start_bytes = self.skipped.start_bytes.saturating_add(1);
                    buffer.advance(1);
                    return Step::Again;
                }
                let received = self.take(buffer, end, Some(Fault::Truncated));
                buffer.advance(1);
                self.begin();
                Step::Event(received)
            }
        }
    }

    /// Lets go of content beyond the limit; `searched` bytes of the buffer are certainly content.
    fn bound(&mut self, buffer: &mut BytesMut) -> Option<Received> {
        if matches!(self.state, State::Open) && self.searched > self.frame_bytes_max {
            let head = Bytes::copy_from_slice(buffer.get(..self.head_bytes_max).unwrap_or_default());
            if self.on_oversize == OnOversize::Close {
                self.state = State::GivenUp;
                buffer.clear();
                let content_bytes = (self.frame_bytes_max as u64).saturating_add(1);
                return Some(Received::Quarantined { fault: Fault::Oversize, head, content_bytes });
            }
            self.state = State::Oversize { head, content_bytes: 0 };
        }
        if let State::Oversize { content_bytes, .. } = &mut self.state {
            *content_bytes = content_bytes.saturating_add(self.searched as u64);
            buffer.advance(self.searched);
            self.searched = 0;
        }
        None
    }

    /// At an FS, with the byte after it known.
    fn at_end(&mut self, buffer: &mut BytesMut, end: usize, next: u8) -> Step {
        let (fault, delimiter_bytes) = match (next, self.end) {
            (CR, _) => (None, 2),
            (VT | FS | LF, FrameEnd::Lenient) => (None, 1),
            (_, FrameEnd::Lenient) => {
                self.searched = end.saturating_add(1);
                return Step::Again;
            }
            (_, FrameEnd::Strict) => (Some(Fault::EndWithoutReturn), 1),
        };
        let received = self.take(buffer, end, fault);
        buffer.advance(delimiter_bytes);
        Step::Event(received)
    }

    /// Takes the open frame's content, `end` bytes of which are in the buffer, and is between frames again.
    fn take(&mut self, buffer: &mut BytesMut, end: usize, fault: Option<Fault>) -> Received {
        let content = buffer.split_to(end.min(buffer.len())).freeze();
        self.searched = 0;
        match (std::mem::replace(&mut self.state, State::Between { preamble_bytes: 0 }), fault) {
            (State::Oversize { head, content_bytes }, _) => {
                let content_bytes = content_bytes.saturating_add(content.len() as u64);
                Received::Quarantined { fault: Fault::Oversize, head, content_bytes }
            }
            (_, Some(fault)) => Received::Quarantined { fault, content_bytes: content.len() as u64, head: content },
            (_, None) => Received::Frame(content),
        }
    }
}

impl Decoder for Codec {
    type Item = Received;
    type Error = DecodeError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Received>, DecodeError> {
        loop {
            match self.state {
                State::Between { preamble_bytes } => {
                    if !self.find_start(buffer, preamble_bytes)? {
                        return Ok(None);
                    }
                }
                State::Open | State::Oversize { .. } => match self.find_end(buffer) {
                    Step::Wait => return Ok(None),
                    Step::Again => {}
                    Step::Event(received) => return Ok(Some(received)),
                },
                State::GivenUp => return Err(DecodeError::Oversize { bytes_max: self.frame_bytes_max }),
            }
        }
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> Result<Option<Received>, DecodeError> {
        match self.decode(buffer)? {
            Some(received) => Ok(Some(received)),
            None => Ok(self.cut(buffer)),
        }
    }
}

impl Encoder<&[u8]> for Codec {
    type Error = EncodeError;

    fn encode(&mut self, content: &[u8], out: &mut BytesMut) -> Result<(), EncodeError> {
        if let Some(offset) = memchr2(VT, FS, content) {
            return Err(EncodeError::Delimiter { offset });
        }
        put_frame(content, out);
        Ok(())
    }
}

/// Frames an answer. A delimiter inside it (copied from a stray one in the request) is left out: refusing the answer
/// would make the sender repeat the same message for ever.
pub(crate) fn put_frame(content: &[u8], out: &mut BytesMut) {
    out.reserve(content.len().saturating_add(3));
    out.put_u8(VT);
    for part in content.split(|byte| matches!(*byte, VT | FS)) {
        out.put_slice(part);
    }
    out.put_slice(&[FS, CR]);
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(content) => write!(f, "Frame({} bytes)", content.len()),
            Self::Quarantined { fault, content_bytes, .. } => {
                write!(f, "Quarantined({fault:?}, {content_bytes} bytes)")
            }
        }
    }
}

#[cfg(test)]
mod tests;
