//! No file descriptor is left: the listener waits instead of spinning, and goes on when there is one again.
//! The test runs itself once more under a limit of its own, since the limit holds for a whole process.

use std::fs::File;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mllp::{Arrival, Client, Listener, ListenerConfig, Outlet};
use tokio_util::sync::CancellationToken;

struct Echo;

impl Outlet for Echo {
    async fn receive(&self, _: Arrival) -> Option<Bytes> {
        Some(Bytes::from_static(b"AA"))
    }
}

#[test]
fn accepting_backs_off_without_descriptors() {
    let test = std::env::current_exe().unwrap();
    let limited = "ulimit -n 64 && exec \"$0\" --exact under_a_limit --ignored --nocapture";
    let ran = Command::new("sh").args(["-c", limited]).arg(test).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

#[tokio::test]
#[ignore = "run by accepting_backs_off_without_descriptors, under a limit of descriptors"]
async fn under_a_limit() {
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), ListenerConfig::default()).await.unwrap();
    let (addr, counters) = (listener.local_addr(), listener.counters());
    tokio::spawn(listener.serve(Arc::new(Echo), CancellationToken::new()));
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).take(1_000).collect();
    assert!(files.len() < 1_000, "no limit is set");
    // One for the client; the listener finds none.
    files.pop();
    let begun = Instant::now();
    let mut client = Client::connect(addr).await.unwrap();
    while counters.accept_errors.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(begun.elapsed() >= Duration::from_millis(30), "three errors without a pause");
    drop(files);
    assert_eq!(client.send(b"m").await.unwrap(), "AA");
}
