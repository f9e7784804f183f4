//! The ceiling of a listener on this machine: an echo over real sockets and the real codec, with a fixed answer.
//!
//! Lives here: the measurement behind `sluice bench`. Does not: anything a listener needs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{Arrival, BindError, Client, ConnectError, Listener, ListenerConfig, Outlet, SendAllError};

/// The answer of the echo: about as long as a real one.
const ANSWER: &[u8] =
    b"MSH|^~\\&|SLUICE|HOSPITAL|SENDER|HOSPITAL|20240101000000+0000||ACK^A01^ACK|1|P|2.5.1\rMSA|AA|1\r";

/// The echo could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum EchoError {
    /// No port.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A message was not answered.
    #[error(transparent)]
    Send(#[from] SendAllError),
    /// A sender panicked.
    #[error("sender failed")]
    Sender(#[from] tokio::task::JoinError),
}

struct Echo;

impl Outlet for Echo {
    async fn receive(&self, _: Arrival) -> Option<Bytes> {
        Some(Bytes::from_static(ANSWER))
    }
}

/// Time to send `messages` copies of `message` over `connections`, each waiting for its answer before the next.
pub async fn echo(connections: usize, messages: usize, message: &[u8]) -> Result<Duration, EchoError> {
    echo_pipelined(connections, messages, 1, message).await
}

/// As [`echo`], with up to `window` messages unanswered on each connection.
pub async fn echo_pipelined(
    connections: usize,
    messages: usize,
    window: usize,
    message: &[u8],
) -> Result<Duration, EchoError> {
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), unbounded()).await?;
    let addr = listener.local_addr();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(listener.serve(Arc::new(Echo), stop.clone()));
    let mut clients = Vec::new();
    for _ in 0..connections.max(1) {
        clients.push(Client::connect(addr).await?);
    }
    let message = Bytes::copy_from_slice(message);
    let begun = Instant::now();
    let mut senders = JoinSet::new();
    let (each, left) = (messages.checked_div(clients.len()), messages.checked_rem(clients.len()));
    for (number, mut client) in clients.into_iter().enumerate() {
        let share = each.unwrap_or(0).saturating_add(usize::from(left.is_some_and(|left| number < left)));
        let copies = std::iter::repeat_n(message.clone(), share);
        senders.spawn(async move { client.send_all(copies, window, |_, _| ()).await });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    let taken = begun.elapsed();
    stop.cancel();
    serving.await?;
    Ok(taken)
}

fn unbounded() -> ListenerConfig {
    let mut config = ListenerConfig::default();
    config.limits.connections_max = usize::MAX;
    config.limits.connections_per_peer_max = usize::MAX;
    config
}
