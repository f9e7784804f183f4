//! The listener: accepts, bounds the number of connections, stops.
//!
//! Lives here: everything about connections as a whole, and the one trait through which frames leave this crate. Does
//! not: what happens on one connection. Contract: nothing a peer or the outlet does ends [`Listener::serve`].

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::codec::{FrameEnd, OnOversize, Received};
use crate::connection::{self, Ends};
use crate::counters::{self, Counters};
use crate::limits::Limits;

/// First and last pause after a failure to accept.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(10);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Pause between keepalive probes that are not answered.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Something that arrived on a connection.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The sender's address.
    pub peer: SocketAddr,
    /// Our address, which says which listener it was.
    pub local: SocketAddr,
    /// The frame, whole or quarantined.
    pub received: Received,
}

/// Where frames go.
pub trait Outlet: Send + Sync + 'static {
    /// Takes one frame and gives the content to answer with; `None` writes no answer.
    ///
    /// Up to `in_flight_frames_max` calls of one connection run concurrently; each is polled first in the order of its
    /// frame, and the answers are written in that order. A call may be dropped unfinished only when `stop_timeout` has
    /// passed. If it panics, the connection is closed without its answer and those after it, so the sender repeats.
    fn receive(&self, arrival: Arrival) -> impl Future<Output = Option<Bytes>> + Send;
}

/// Settings of one listener.
#[derive(Clone, Debug, Default)]
pub struct ListenerConfig {
    /// The bounds.
    pub limits: Limits,
    /// What ends a frame.
    pub end: FrameEnd,
    /// What follows an oversize frame.
    pub on_oversize: OnOversize,
}

/// A listener can't be bound.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {addr}")]
pub struct BindError {
    /// The address asked for.
    pub addr: SocketAddr,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// How a listener stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Connections cut at `stop_timeout` with frames still unanswered; 0 is a clean stop.
    pub connections_cut: usize,
}

/// A bound TCP port.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    local: SocketAddr,
    config: Arc<ListenerConfig>,
    counters: Arc<Counters>,
}

impl Listener {
    /// Binds `addr`; port 0 takes a free one.
    pub async fn bind(addr: SocketAddr, config: ListenerConfig) -> Result<Self, BindError> {
        let fault = |source| BindError { addr, source };
        let socket = TcpListener::bind(addr).await.map_err(fault)?;
        let local = socket.local_addr().map_err(fault)?;
        Ok(Self { socket, local, config: Arc::new(config), counters: Arc::default() })
    }

    /// The address bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The counters, which outlive the listener.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Serves until `shutdown`: then accepts no more, lets frames in flight be answered within `stop_timeout`, and
    /// returns.
    pub async fn serve<O: Outlet>(self, outlet: Arc<O>, shutdown: CancellationToken) -> Stopped {
        let slots = Arc::new(Slots::default());
        let mut connections = JoinSet::new();
        let mut pause = ACCEPT_PAUSE_MIN;
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = self.socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    pause = ACCEPT_PAUSE_MIN;
                    if let Some(slot) = self.admit(&slots, &stream, peer) {
                        let ends = Ends { peer, local: stream.local_addr().unwrap_or(self.local) };
                        let (config, counters) = (Arc::clone(&self.config), Arc::clone(&self.counters));
                        let (outlet, stop) = (Arc::clone(&outlet), shutdown.child_token());
                        connections.spawn(async move {
                            connection::run(stream, ends, outlet, &config, &counters, stop).await;
                            drop(slot);
                        });
                    }
                }
                Err(error) => {
                    counters::add(&self.counters.accept_errors, 1);
                    tracing::warn!(local = %self.local, %error, pause_ms = pause.as_millis(), "can't accept a connection");
                    tokio::select! {
                        () = shutdown.cancelled() => break,
                        () = sleep(pause) => pause = pause.saturating_mul(2).min(ACCEPT_PAUSE_MAX),
                    }
                }
            }
        }
        drop(self.socket);
        drain(connections, self.config.limits.stop_timeout).await
    }

    fn admit(&self, slots: &Arc<Slots>, stream: &TcpStream, peer: SocketAddr) -> Option<Slot> {
        let limits = &self.config.limits;
        let slot = match Slots::take(slots, peer.ip(), limits, &self.counters) {
            Ok(slot) => slot,
            Err(limit) => {
                let counter = match limit {
                    Full::All => &self.counters.connections_refused,
                    Full::Peer => &self.counters.connections_refused_peer,
                };
                counters::add(counter, 1);
                tracing::warn!(local = %self.local, %peer, ?limit, "connection refused at the limit");
                return None;
            }
        };
        counters::add(&self.counters.connections_accepted, 1);
        let keepalive = TcpKeepalive::new().with_time(limits.keepalive).with_interval(KEEPALIVE_INTERVAL);
        let options = stream.set_nodelay(true).and(SockRef::from(stream).set_tcp_keepalive(&keepalive));
        if let Err(error) = options {
            // The peer may be gone already; reading will tell.
            tracing::debug!(local = %self.local, %peer, %error, "socket options not set");
        }
        Some(slot)
    }
}

/// Waits for the connections to end by themselves, then cuts what is left.
async fn drain(mut connections: JoinSet<()>, stop_timeout: Duration) -> Stopped {
    let ended = timeout(stop_timeout, async { while connections.join_next().await.is_some() {} }).await;
    let connections_cut = if ended.is_ok() { 0 } else { connections.len() };
    connections.shutdown().await;
    Stopped { connections_cut }
}

/// Open connections, by peer address.
#[derive(Debug, Default)]
struct Slots {
    by_peer: Mutex<BTreeMap<IpAddr, usize>>,
}

/// Which limit refused a connection.
#[derive(Clone, Copy, Debug)]
enum Full {
    All,
    Peer,
}

/// One open connection; gives its place back when dropped, also when its task is cut.
struct Slot {
    slots: Arc<Slots>,
    peer: IpAddr,
    counters: Arc<Counters>,
}

impl Slots {
    fn take(slots: &Arc<Self>, peer: IpAddr, limits: &Limits, counters: &Arc<Counters>) -> Result<Slot, Full> {
        let mut by_peer = slots.by_peer.lock().unwrap_or_else(PoisonError::into_inner);
        let open = by_peer.values().fold(0_usize, |sum, n| sum.saturating_add(*n));
        if open >= limits.connections_max {
            return Err(Full::All);
        }
        let of_peer = by_peer.get(&peer).copied().unwrap_or(0);
        if of_peer >= limits.connections_per_peer_max {
            return Err(Full::Peer);
        }
        by_peer.insert(peer, of_peer.saturating_add(1));
        counters.connections_open.fetch_add(1, Ordering::Relaxed);
        Ok(Slot { slots: Arc::clone(slots), peer, counters: Arc::clone(counters) })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut by_peer = self.slots.by_peer.lock().unwrap_or_else(PoisonError::into_inner);
        match by_peer.get_mut(&self.peer) {
            Some(open) if *open > 1 => *open = open.saturating_sub(1),
            _ => {
                by_peer.remove(&self.peer);
            }
        }
        self.counters.connections_open.fetch_sub(1, Ordering::Relaxed);
    }
}
