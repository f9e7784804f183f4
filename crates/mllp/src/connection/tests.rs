//! What depends on time, on a stream in memory and a clock that jumps to the next deadline.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;
use crate::{FrameEnd, Limits};

/// Answers `F` for a frame, `Q` for a quarantined one, after a time.
struct Kind(Duration);

impl Outlet for Kind {
    async fn receive(&self, arrival: Arrival) -> Option<Bytes> {
        tokio::time::sleep(self.0).await;
        Some(Bytes::from_static(match arrival.received {
            Received::Frame(_) => b"F",
            Received::Quarantined { .. } => b"Q",
        }))
    }
}

fn start(limits: Limits, end: FrameEnd) -> (DuplexStream, Arc<Counters>, JoinHandle<()>) {
    start_with(limits, end, Kind(Duration::ZERO), CancellationToken::new())
}

fn start_with(
    limits: Limits,
    end: FrameEnd,
    outlet: Kind,
    stop: CancellationToken,
) -> (DuplexStream, Arc<Counters>, JoinHandle<()>) {
    let (ours, theirs) = duplex(1 << 10);
    let counters = Arc::new(Counters::default());
    let counted = Arc::clone(&counters);
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let task = tokio::spawn(async move {
        let config = ListenerConfig { limits, end, ..ListenerConfig::default() };
        let ends = Ends { peer: nowhere, local: nowhere };
        run(theirs, ends, Arc::new(outlet), &config, &counted, stop).await;
    });
    (ours, counters, task)
}

async fn rest(stream: &mut DuplexStream) -> Vec<u8> {
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).await.unwrap();
    answers
}

async fn answer(stream: &mut DuplexStream) -> [u8; 4] {
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.unwrap();
    answer
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn w7_frame_without_end_times_out() {
    let (mut peer, counters, task) = start(Limits::default(), FrameEnd::Lenient);
    let begun = Instant::now();
    peer.write_all(b"\x0bno end").await.unwrap();
    assert_eq!(rest(&mut peer).await, b"\x0bQ\x1c\r");
    assert_eq!(begun.elapsed().as_secs(), Limits::default().frame_timeout.as_secs());
    task.await.unwrap();
    assert_eq!((count(&counters.frame_timeouts), count(&counters.frames_unfinished)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn w7_one_byte_per_second_times_out() {
    let (mut peer, counters, task) = start(Limits::default(), FrameEnd::Lenient);
    peer.write_all(b"\x0b").await.unwrap();
    let mut seconds = 0;
    while peer.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        seconds += 1;
        assert!(seconds < 40, "still open");
    }
    task.await.unwrap();
    assert!(seconds >= 30, "closed after {seconds} s");
    assert_eq!(count(&counters.frame_timeouts), 1);
}

#[tokio::test(start_paused = true)]
async fn w7_each_frame_has_its_own_time() {
    let (mut peer, counters, _task) = start(Limits::default(), FrameEnd::Lenient);
    peer.write_all(b"\x0bm").await.unwrap();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        peer.write_all(b"m\x1c\r\x0bm").await.unwrap();
        assert_eq!(&answer(&mut peer).await, b"\x0bF\x1c\r");
    }
    assert_eq!(count(&counters.frame_timeouts), 0);
}

#[tokio::test(start_paused = true)]
async fn w7_silence_between_frames_may_last_for_hours() {
    let (mut peer, counters, _task) = start(Limits::default(), FrameEnd::Lenient);
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_hours(8)).await;
        peer.write_all(b"\x0bm\x1c\r").await.unwrap();
        assert_eq!(&answer(&mut peer).await, b"\x0bF\x1c\r");
    }
    assert_eq!(count(&counters.idle_timeouts), 0);
}

#[tokio::test(start_paused = true)]
async fn w7_idle_timeout_where_configured() {
    let limits = Limits { idle_timeout: Some(Duration::from_hours(1)), ..Limits::default() };
    let (mut peer, counters, task) = start(limits, FrameEnd::Lenient);
    peer.write_all(b"\x0bm\x1c\r").await.unwrap();
    assert_eq!(rest(&mut peer).await, b"\x0bF\x1c\r");
    task.await.unwrap();
    assert_eq!((count(&counters.idle_timeouts), count(&counters.frame_timeouts)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn w6_a_sender_that_never_sends_the_cr_is_answered() {
    let (mut peer, counters, _task) = start(Limits::default(), FrameEnd::Lenient);
    for _ in 0..2 {
        peer.write_all(b"\x0bm\x1c").await.unwrap();
        assert_eq!(&answer(&mut peer).await, b"\x0bF\x1c\r");
    }
    // The CR may still come.
    peer.write_all(b"\r\x0bm\x1c\r").await.unwrap();
    assert_eq!(&answer(&mut peer).await, b"\x0bF\x1c\r");
    assert_eq!((count(&counters.frames), count(&counters.skipped_line_end_bytes)), (3, 1));

    let (mut peer, counters, _task) = start(Limits::default(), FrameEnd::Strict);
    peer.write_all(b"\x0bm\x1c").await.unwrap();
    assert_eq!(&answer(&mut peer).await, b"\x0bQ\x1c\r");
    assert_eq!(count(&counters.frames_end_without_return), 1);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_no_answers_is_closed() {
    let (mut peer, counters, task) = start(Limits::default(), FrameEnd::Lenient);
    let mut sent = 0;
    while sent < 100_000 && peer.write_all(b"\x0bm\x1c\r").await.is_ok() {
        sent += 1;
    }
    task.await.unwrap();
    assert_eq!(count(&counters.write_timeouts), 1);
}

#[tokio::test(start_paused = true)]
async fn w7_waiting_for_the_outlet_is_no_idleness() {
    let limits = Limits { idle_timeout: Some(Duration::from_hours(1)), ..Limits::default() };
    let outlet = Kind(Duration::from_hours(2));
    let (mut peer, counters, _task) = start_with(limits, FrameEnd::Lenient, outlet, CancellationToken::new());
    peer.write_all(b"\x0bm\x1c\r").await.unwrap();
    assert_eq!(&answer(&mut peer).await, b"\x0bF\x1c\r");
    assert_eq!(count(&counters.idle_timeouts), 0);
}

#[tokio::test(start_paused = true)]
async fn w23_a_frame_begun_after_the_stop_is_not_waited_for() {
    let stop = CancellationToken::new();
    let outlet = Kind(Duration::ZERO);
    let (mut peer, counters, task) = start_with(Limits::default(), FrameEnd::Lenient, outlet, stop.clone());
    peer.write_all(b"\x0bm1 ha").await.unwrap();
    while count(&counters.received_bytes) < 6 {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    stop.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    peer.write_all(b"lf\x1c\r\x0bm2").await.unwrap();
    assert_eq!(rest(&mut peer).await, b"\x0bF\x1c\r");
    task.await.unwrap();
    assert!(begun.elapsed() < Limits::default().frame_timeout);
    assert_eq!((count(&counters.frames), count(&counters.frames_unfinished)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn frames_read_before_the_peer_went_away_still_count() {
    let limits = Limits { in_flight_frames_max: 1, ..Limits::default() };
    let outlet = Kind(Duration::from_secs(1));
    let (mut peer, counters, task) = start_with(limits, FrameEnd::Lenient, outlet, CancellationToken::new());
    peer.write_all(&b"\x0bm\x1c\r".repeat(50)).await.unwrap();
    drop(peer);
    task.await.unwrap();
    assert_eq!((count(&counters.frames), count(&counters.answers)), (50, 0));
    assert_eq!(count(&counters.connections_broken), 1);
}
