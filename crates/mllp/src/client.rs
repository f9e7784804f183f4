//! The sending side: one connection to an MLLP listener.
//!
//! Lives here: sending one message and waiting for its answer, and sending many with a window. Does not: what the
//! answer says, and when to try again. Contract: after an error that leaves an answer outstanding, the client refuses
//! to go on, since the next answer might be the old one.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::timeout;
use tokio_util::codec::{Encoder as _, FramedRead};

use crate::codec::{Codec, DecodeError, EncodeError, FrameEnd, OnOversize, Received};
use crate::limits::Limits;

/// Settings of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Longest time to connect.
    pub connect_timeout: Duration,
    /// Longest time in which nothing can be sent and no answer comes.
    pub answer_timeout: Duration,
    /// Longest answer.
    pub answer_bytes_max: usize,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(30),
            answer_bytes_max: 1 << 20,
        }
    }
}

/// A connection can't be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody took the connection in time.
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// The system refused.
    #[error("can't connect")]
    Io(#[from] io::Error),
}

/// A message was not answered.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It can't be framed; nothing was sent.
    #[error("message can't be framed")]
    Content(#[from] EncodeError),
    /// An earlier send failed; nothing was sent. Connect again.
    #[error("connection is out of step since an earlier failure")]
    OutOfStep,
    /// It may have been received.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The listener closed the connection; the message may have been received.
    #[error("connection closed before the answer")]
    Closed,
    /// The answer is no frame; the message was received.
    #[error("answer is not MLLP")]
    Answer(#[source] DecodeError),
    /// The answer's frame is not whole; the message was received.
    #[error("answer is broken: {0:?}")]
    AnswerQuarantined(crate::Fault),
    /// The connection failed; the message may have been received.
    #[error("connection failed")]
    Io(#[source] io::Error),
}

impl SendError {
    /// Whether the message certainly never left.
    pub fn certainly_not_sent(&self) -> bool {
        matches!(self, Self::Content(_) | Self::OutOfStep)
    }
}

/// Sending many messages ended early.
#[derive(Debug, thiserror::Error)]
#[error("stopped after {answered} answers")]
pub struct SendAllError {
    /// How many messages were answered, from the first.
    pub answered: usize,
    /// What happened to the next.
    #[source]
    pub source: SendError,
}

/// One connection to a listener.
#[derive(Debug)]
pub struct Client {
    answers: FramedRead<OwnedReadHalf, Codec>,
    writer: OwnedWriteHalf,
    codec: Codec,
    out: BytesMut,
    config: ClientConfig,
    in_step: bool,
}

impl Client {
    /// Connects with the default settings.
    pub async fn connect(addr: impl ToSocketAddrs) -> Result<Self, ConnectError> {
        Self::connect_with(addr, ClientConfig::default()).await
    }

    /// Connects.
    pub async fn connect_with(addr: impl ToSocketAddrs, config: ClientConfig) -> Result<Self, ConnectError> {
        let connected = timeout(config.connect_timeout, TcpStream::connect(addr)).await;
        let stream = connected.map_err(|_| ConnectError::Timeout(config.connect_timeout))??;
        stream.set_nodelay(true)?;
        let limits = Limits { frame_bytes_max: config.answer_bytes_max, ..Limits::default() };
        let codec = || Codec::new(&limits, FrameEnd::Lenient, OnOversize::Close);
        let (reader, writer) = stream.into_split();
        Ok(Self {
            answers: FramedRead::new(reader, codec()),
            writer,
            codec: codec(),
            out: BytesMut::new(),
            config,
            in_step: true,
        })
    }

    /// Sends one message and waits for its answer.
    pub async fn send(&mut self, message: &[u8]) -> Result<Bytes, SendError> {
        let mut answer = Bytes::new();
        let sent = self.send_all([message], 1, |_, content| answer = content).await;
        sent.map(|()| answer).map_err(|error| error.source)
    }

    /// Sends messages with up to `window` of them unanswered, and gives each answer with the number of its message,
    /// from 0, to `on_answer`. The listener must answer every message, in order.
    pub async fn send_all<M: AsRef<[u8]>>(
        &mut self,
        messages: impl IntoIterator<Item = M>,
        window: usize,
        mut on_answer: impl FnMut(usize, Bytes),
    ) -> Result<(), SendAllError> {
        if !self.in_step {
            return Err(SendAllError { answered: 0, source: SendError::OutOfStep });
        }
        let mut messages = messages.into_iter().fuse();
        let (mut sent, mut answered) = (0_usize, 0_usize);
        loop {
            while sent.saturating_sub(answered) < window.max(1) {
                let Some(message) = messages.next() else { break };
                let queued = self.codec.encode(message.as_ref(), &mut self.out);
                queued.map_err(|source| SendAllError { answered, source: source.into() })?;
                sent = sent.saturating_add(1);
                self.in_step = false;
            }
            if sent == answered {
                return Ok(());
            }
            if let Some(answer) = self.advance().await.map_err(|source| SendAllError { answered, source })? {
                on_answer(answered, answer);
                answered = answered.saturating_add(1);
                self.in_step = sent == answered;
            }
        }
    }

    /// Reads an answer or writes some of what is queued, whichever is possible first: were we only to write, a
    /// listener that waits for its answers to be read would wait for ever.
    async fn advance(&mut self) -> Result<Option<Bytes>, SendError> {
        let answers = &mut self.answers;
        let turn = timeout(self.config.answer_timeout, async {
            tokio::select! {
                biased;
                answer = answers.next() => Ok(Some(answer)),
                written = self.writer.write_buf(&mut self.out), if !self.out.is_empty() => written.map(|_| None),
            }
        });
        match turn.await {
            Err(_) => Err(SendError::Timeout(self.config.answer_timeout)),
            Ok(Err(error)) => Err(SendError::Io(error)),
            Ok(Ok(None)) => Ok(None),
            Ok(Ok(Some(answer))) => match answer {
                None => Err(SendError::Closed),
                Some(Ok(Received::Frame(content))) => Ok(Some(content)),
                Some(Ok(Received::Quarantined { fault, .. })) => Err(SendError::AnswerQuarantined(fault)),
                Some(Err(DecodeError::Io(error))) => Err(SendError::Io(error)),
                Some(Err(error)) => Err(SendError::Answer(error)),
            },
        }
    }
}
