//! One connection: reads frames, gives them to the outlet, writes the answers in order.
//!
//! Lives here: the loop of a connection, its time-outs, its back-pressure, its end. Does not: framing, accepting.
//! Contract: what was read as a frame is given to the outlet and seen through, whatever becomes of the socket.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesOrdered, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::codec::Decoder as _;
use tokio_util::sync::CancellationToken;

use crate::codec::{Codec, DecodeError, Fault, Progress, Received, Skipped, put_frame};
use crate::counters::{Counters, add};
use crate::listener::{Arrival, ListenerConfig, Outlet};

/// Room made in the buffer before each read.
const READ_BYTES: usize = 16 << 10;
/// How long a connection that we close takes in what the peer still sends: closing on unread bytes resets the
/// connection, and a reset destroys answers under way.
const LINGER: Duration = Duration::from_millis(500);

/// Both addresses of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

type InFlight<'c> = FuturesOrdered<Pin<Box<dyn Future<Output = Answered> + Send + 'c>>>;

struct Answered {
    content_bytes: usize,
    /// The error is a panic of the outlet.
    answer: Result<Option<Bytes>, ()>,
}

enum Turn {
    Answered(Answered),
    Read(std::io::Result<usize>),
    Late,
    Stop,
}

struct Connection<'c, O> {
    ends: Ends,
    outlet: &'c O,
    config: &'c ListenerConfig,
    counters: &'c Counters,
    codec: Codec,
    buffer: BytesMut,
    in_flight: InFlight<'c>,
    in_flight_bytes: usize,
    out: BytesMut,
    input: Input,
    /// False once the peer takes no answers, or one is missing and the order would be wrong.
    answering: bool,
    /// Time already spent waiting for the rest of the open frame, and which frame that is.
    waited: Duration,
    waited_for: u64,
    skipped: Skipped,
}

/// What is still wanted from the peer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    /// Everything.
    Open,
    /// After a stop: frames already read, and the rest of the one that is open behind them (by its number, once known).
    RestOfFrame(Option<u64>),
    /// Nothing: we end the connection.
    Closed,
    /// Nothing: the peer closed its side.
    Ended,
}

/// Serves one connection to its end.
pub(crate) async fn run<S, O>(
    stream: S,
    ends: Ends,
    outlet: Arc<O>,
    config: &ListenerConfig,
    counters: &Counters,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite,
    O: Outlet,
{
    tracing::debug!(peer = %ends.peer, local = %ends.local, "connection open");
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut connection = Connection::new(ends, &*outlet, config, counters);
    let mut stopped = pin!(stop.cancelled());
    let mut stopping = false;
    loop {
        connection.take_frames();
        let reading = connection.wants_bytes();
        if !reading && connection.in_flight.is_empty() {
            break;
        }
        let late = if reading { connection.deadline() } else { None };
        if reading && connection.buffer.capacity().saturating_sub(connection.buffer.len()) < READ_BYTES / 4 {
            connection.buffer.reserve(READ_BYTES);
        }
        let turn = tokio::select! {
            biased;
            Some(answered) = connection.in_flight.next(), if !connection.in_flight.is_empty() => Turn::Answered(answered),
            () = &mut stopped, if !stopping => Turn::Stop,
            read = reader.read_buf(&mut connection.buffer), if reading => Turn::Read(read),
            () = until(late), if late.is_some() => Turn::Late,
        };
        connection.account(late);
        match turn {
            Turn::Answered(answered) => connection.answer(answered, &mut writer).await,
            Turn::Read(read) => connection.read(read),
            Turn::Late => connection.late(),
            Turn::Stop => {
                stopping = true;
                connection.stop();
            }
        }
    }
    connection.end(&mut reader, &mut writer).await;
    tracing::debug!(peer = %ends.peer, local = %ends.local, "connection closed");
}

/// Sleeps until a deadline that is there.
async fn until(deadline: Option<Deadline>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.at).await,
        None => std::future::pending().await,
    }
}

/// When the peer is late, and since when it is waited for.
#[derive(Clone, Copy)]
struct Deadline {
    since: Instant,
    at: Instant,
}

impl<'c, O: Outlet> Connection<'c, O> {
    fn new(ends: Ends, outlet: &'c O, config: &'c ListenerConfig, counters: &'c Counters) -> Self {
        Self {
            ends,
            outlet,
            config,
            counters,
            codec: Codec::new(&config.limits, config.end, config.on_oversize),
            buffer: BytesMut::new(),
            in_flight: InFlight::new(),
            in_flight_bytes: 0,
            out: BytesMut::new(),
            input: Input::Open,
            answering: true,
            waited: Duration::ZERO,
            waited_for: 0,
            skipped: Skipped::default(),
        }
    }

    /// Gives decoded frames to the outlet as far as the limits of in-flight frames allow.
    fn take_frames(&mut self) {
        while self.has_room() {
            let decoded = match self.input {
                Input::Closed => break,
                Input::Ended => self.codec.decode_eof(&mut self.buffer),
                Input::Open | Input::RestOfFrame(_) => self.codec.decode(&mut self.buffer),
            };
            match decoded {
                Ok(Some(received)) => self.dispatch(received),
                Ok(None) => {
                    if let Input::RestOfFrame(awaited) = self.input {
                        self.input = self.rest_of_frame(awaited);
                    }
                    break;
                }
                Err(error) => self.give_up(&error),
            }
        }
        self.count_skipped();
    }

    /// What is wanted after a stop when the buffer holds no more whole frames. A frame that began after the awaited one
    /// is not ours to finish: a busy sender would keep the listener from stopping.
    fn rest_of_frame(&self, awaited: Option<u64>) -> Input {
        let begun = self.codec.frames_begun();
        let open = self.codec.progress(&self.buffer) != Progress::Between;
        if open && awaited.is_none_or(|number| number == begun) {
            Input::RestOfFrame(Some(begun))
        } else {
            Input::Closed
        }
    }

    fn has_room(&self) -> bool {
        let limits = &self.config.limits;
        self.in_flight.is_empty()
            || (self.in_flight.len() < limits.in_flight_frames_max && self.in_flight_bytes < limits.in_flight_bytes_max)
    }

    fn wants_bytes(&self) -> bool {
        matches!(self.input, Input::Open | Input::RestOfFrame(_)) && self.has_room()
    }

    fn dispatch(&mut self, received: Received) {
        let counter = match &received {
            Received::Frame(_) => &self.counters.frames,
            Received::Quarantined { fault: Fault::Truncated, .. } => &self.counters.frames_truncated,
            Received::Quarantined { fault: Fault::Oversize, .. } => &self.counters.frames_oversize,
            Received::Quarantined { fault: Fault::EndWithoutReturn, .. } => &self.counters.frames_end_without_return,
            Received::Quarantined { fault: Fault::Unfinished, .. } => &self.counters.frames_unfinished,
        };
        add(counter, 1);
        let content_bytes = match &received {
            Received::Frame(content) => content.len(),
            Received::Quarantined { fault, head, content_bytes } => {
                tracing::warn!(peer = %self.ends.peer, local = %self.ends.local, ?fault, content_bytes, "frame quarantined");
                head.len()
            }
        };
        self.in_flight_bytes = self.in_flight_bytes.saturating_add(content_bytes);
        let arrival = Arrival { peer: self.ends.peer, local: self.ends.local, received };
        let outlet = self.outlet;
        self.in_flight.push_back(Box::pin(async move {
            let answer = AssertUnwindSafe(async { outlet.receive(arrival).await }).catch_unwind().await;
            Answered { content_bytes, answer: answer.map_err(drop) }
        }));
    }

    fn give_up(&mut self, error: &DecodeError) {
        if matches!(error, DecodeError::Preamble { .. }) {
            add(&self.counters.preambles_over_limit, 1);
        }
        tracing::warn!(peer = %self.ends.peer, local = %self.ends.local, %error, "connection given up");
        self.input = Input::Closed;
    }

    /// When to stop waiting for the peer. Only time spent waiting counts, not time in which we did not read.
    fn deadline(&self) -> Option<Deadline> {
        let limits = &self.config.limits;
        let patience = match self.codec.progress(&self.buffer) {
            Progress::Between if !self.in_flight.is_empty() => return None,
            Progress::Between => limits.idle_timeout?,
            Progress::AwaitingReturn => limits.end_timeout.min(limits.frame_timeout),
            Progress::Open if self.waited_for == self.codec.frames_begun() => {
                limits.frame_timeout.saturating_sub(self.waited)
            }
            Progress::Open => limits.frame_timeout,
        };
        let since = Instant::now();
        Some(Deadline { since, at: since.checked_add(patience)? })
    }

    /// Books the time waited for the open frame.
    fn account(&mut self, deadline: Option<Deadline>) {
        if let Some(deadline) = deadline {
            if self.waited_for != self.codec.frames_begun() {
                self.waited_for = self.codec.frames_begun();
                self.waited = Duration::ZERO;
            }
            self.waited = self.waited.saturating_add(deadline.since.elapsed());
        }
    }

    /// Writes this answer and those that are ready behind it.
    async fn answer<W: AsyncWrite + Unpin>(&mut self, first: Answered, writer: &mut W) {
        let mut next = Some(first);
        let mut answers = 0_usize;
        while let Some(answered) = next {
            self.in_flight_bytes = self.in_flight_bytes.saturating_sub(answered.content_bytes);
            match answered.answer {
                Ok(Some(content)) if self.answering => {
                    put_frame(&content, &mut self.out);
                    answers = answers.saturating_add(1);
                }
                Ok(_) => {}
                Err(()) => {
                    add(&self.counters.outlet_panics, 1);
                    tracing::error!(peer = %self.ends.peer, local = %self.ends.local, "outlet panicked, connection closes");
                    self.mute();
                }
            }
            next = self.in_flight.next().now_or_never().flatten();
        }
        if answers == 0 {
            return;
        }
        match timeout(self.config.limits.write_timeout, writer.write_all_buf(&mut self.out)).await {
            Ok(Ok(())) => add(&self.counters.answers, answers),
            Ok(Err(error)) => self.broken(&error),
            Err(_) => {
                add(&self.counters.write_timeouts, 1);
                tracing::warn!(peer = %self.ends.peer, local = %self.ends.local, "peer takes no answers");
                self.mute();
            }
        }
        self.out.clear();
    }

    /// No more answers and no more frames; those in flight are seen through all the same.
    fn mute(&mut self) {
        self.answering = false;
        self.input = Input::Closed;
    }

    fn read(&mut self, read: std::io::Result<usize>) {
        match read {
            Ok(0) => self.input = Input::Ended,
            Ok(bytes) => add(&self.counters.received_bytes, bytes),
            Err(error) => {
                self.broken(&error);
                self.input = Input::Ended;
            }
        }
    }

    fn broken(&mut self, error: &std::io::Error) {
        // A probe that connects and resets is no fault: only work that was under way makes it worth a count.
        let between = self.codec.progress(&self.buffer) == Progress::Between;
        if self.answering && !(between && self.in_flight.is_empty() && self.out.is_empty()) {
            add(&self.counters.connections_broken, 1);
        }
        tracing::debug!(peer = %self.ends.peer, local = %self.ends.local, %error, "peer broke off");
        // A sender that does not wait for answers may have left frames to read: they still count.
        self.answering = false;
    }

    fn late(&mut self) {
        let progress = self.codec.progress(&self.buffer);
        let ends = self.ends;
        match progress {
            Progress::Between => {
                add(&self.counters.idle_timeouts, 1);
                tracing::debug!(peer = %ends.peer, local = %ends.local, "idle for too long");
                self.input = Input::Closed;
            }
            Progress::Open => {
                add(&self.counters.frame_timeouts, 1);
                tracing::warn!(peer = %ends.peer, local = %ends.local, "frame takes too long");
                self.input = Input::Closed;
            }
            // The frame ends here; the connection goes on.
            Progress::AwaitingReturn => {}
        }
        if let Some(received) = self.codec.cut(&mut self.buffer) {
            self.dispatch(received);
        }
    }

    fn stop(&mut self) {
        if self.input == Input::Open {
            self.input = Input::RestOfFrame(None);
        }
    }

    fn count_skipped(&mut self) {
        let (now, before) = (self.codec.skipped(), self.skipped);
        if now == before {
            return;
        }
        let counters = self.counters;
        add(&counters.skipped_line_end_bytes, now.line_end_bytes.saturating_sub(before.line_end_bytes));
        add(&counters.skipped_nul_bytes, now.nul_bytes.saturating_sub(before.nul_bytes));
        add(&counters.skipped_end_bytes, now.end_bytes.saturating_sub(before.end_bytes));
        add(&counters.skipped_start_bytes, now.start_bytes.saturating_sub(before.start_bytes));
        add(&counters.skipped_other_bytes, now.other_bytes.saturating_sub(before.other_bytes));
        self.skipped = now;
    }

    /// Closes our side; where the peer did not close its own, takes in what it still sends for a moment.
    async fn end<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(&mut self, reader: &mut R, writer: &mut W) {
        if writer.shutdown().await.is_err() || self.input == Input::Ended {
            return;
        }
        let drained = timeout(LINGER, async {
            loop {
                self.buffer.clear();
                self.buffer.reserve(READ_BYTES);
                match reader.read_buf(&mut self.buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        });
        // Out of time or not, the connection is over.
        drained.await.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
