//! A health probe that connects and closes is no event for an operator. Alone in its binary: it looks at the log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use mllp::{Arrival, Listener, ListenerConfig, Outlet};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tracing::span;

/// Counts events an operator is meant to see.
#[derive(Clone, Default)]
struct Alarms(Arc<AtomicUsize>);

impl tracing::Subscriber for Alarms {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Silent;

impl Outlet for Silent {
    async fn receive(&self, _: Arrival) -> Option<Bytes> {
        None
    }
}

#[tokio::test]
async fn w21_connect_and_close_raises_no_alarm() {
    let alarms = Alarms::default();
    let _guard = tracing::subscriber::set_default(alarms.clone());
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), ListenerConfig::default()).await.unwrap();
    let (addr, counters, stop) = (listener.local_addr(), listener.counters(), CancellationToken::new());
    let serving = tokio::spawn(listener.serve(Arc::new(Silent), stop.clone()));
    for reset in [false, true] {
        let stream = TcpStream::connect(addr).await.unwrap();
        if reset {
            socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        }
    }
    while counters.connections_accepted.load(Ordering::Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    assert_eq!(serving.await.unwrap().connections_cut, 0);
    assert_eq!(counters.connections_broken.load(Ordering::Relaxed), 0);
    assert_eq!(alarms.0.load(Ordering::Relaxed), 0);
}
