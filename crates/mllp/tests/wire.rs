//! The listener and the client over real sockets: what senders do on the wire, and what they get back.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use mllp::{Arrival, Client, Counters, Fault, Listener, ListenerConfig, OnOversize, Outlet, Received, Stopped};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Script<F>(F);

impl<F, R> Outlet for Script<F>
where
    F: Fn(Arrival) -> R + Send + Sync + 'static,
    R: Future<Output = Option<Bytes>> + Send,
{
    async fn receive(&self, arrival: Arrival) -> Option<Bytes> {
        (self.0)(arrival).await
    }
}

struct Running {
    addr: SocketAddr,
    counters: Arc<Counters>,
    stop: CancellationToken,
    serving: JoinHandle<Stopped>,
}

async fn serve(config: ListenerConfig, outlet: impl Outlet) -> Running {
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), config).await.unwrap();
    let (addr, counters, stop) = (listener.local_addr(), listener.counters(), CancellationToken::new());
    let serving = tokio::spawn(listener.serve(Arc::new(outlet), stop.clone()));
    Running { addr, counters, stop, serving }
}

/// Answers with what came; a quarantined frame with its fault.
fn echo() -> impl Outlet {
    Script(|arrival: Arrival| async move { Some(content(arrival.received)) })
}

fn content(received: Received) -> Bytes {
    match received {
        Received::Frame(content) => content,
        Received::Quarantined { fault, .. } => format!("{fault:?}").into(),
    }
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Waits for a condition that must come; the runtime's test harness bounds the whole.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Sends `bytes`, closes the sending side, and reads everything.
async fn talk(addr: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    rest(&mut stream).await
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).await.unwrap();
    String::from_utf8(answers).unwrap()
}

fn framed<'m>(contents: impl IntoIterator<Item = &'m str>) -> String {
    contents.into_iter().flat_map(|content| ["\x0b", content, "\x1c\r"]).collect()
}

#[tokio::test]
async fn w1_n_frames_in_n_answers_out_in_order() {
    let running = serve(ListenerConfig::default(), echo()).await;
    let messages: Vec<String> = (0..500).map(|number| format!("m{number}")).collect();
    let stream = framed(messages.iter().map(String::as_str));
    assert_eq!(talk(running.addr, stream.as_bytes()).await, stream);
    assert_eq!((count(&running.counters.frames), count(&running.counters.answers)), (500, 500));
}

#[tokio::test]
async fn w1_answers_keep_the_order_when_later_frames_are_ready_first() {
    let gates: Arc<BTreeMap<&str, Semaphore>> = Arc::new(["a", "b", "c"].map(|name| (name, Semaphore::new(0))).into());
    let opened = Arc::clone(&gates);
    let outlet = Script(move |arrival: Arrival| {
        let gates = Arc::clone(&gates);
        async move {
            let content = content(arrival.received);
            let name = std::str::from_utf8(&content).unwrap();
            gates[name].acquire().await.unwrap().forget();
            // The one before may go on only now.
            if let Some((_, before)) = gates.range(..name).next_back() {
                before.add_permits(1);
            }
            Some(content)
        }
    });
    let running = serve(ListenerConfig::default(), outlet).await;
    opened["c"].add_permits(1);
    let stream = framed(["a", "b", "c"]);
    assert_eq!(talk(running.addr, stream.as_bytes()).await, stream);
}

#[tokio::test]
async fn w2_w3_w4_junk_is_skipped_and_counted() {
    let running = serve(ListenerConfig::default(), echo()).await;
    let answers = talk(running.addr, b"\n\0log\x0b\x0bm1\x1c\r\x1c\r\n\x0bm2\x1c\r").await;
    assert_eq!(answers, framed(["m1", "m2"]));
    let counters = &running.counters;
    let skipped = [
        &counters.skipped_line_end_bytes,
        &counters.skipped_nul_bytes,
        &counters.skipped_end_bytes,
        &counters.skipped_start_bytes,
        &counters.skipped_other_bytes,
    ];
    assert_eq!(skipped.map(count), [3, 1, 1, 1, 3]);
}

#[tokio::test]
async fn w3_a_peer_that_does_not_speak_mllp_is_closed() {
    let running = serve(ListenerConfig::default(), echo()).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    stream.write_all(&[b'x'; 5_000]).await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
    assert_eq!(count(&running.counters.preambles_over_limit), 1);
}

#[tokio::test]
async fn w5_a_large_frame_arrives_whole() {
    let running = serve(ListenerConfig::default(), echo()).await;
    let message = vec![b'A'; 3 << 20];
    let config = mllp::ClientConfig { answer_bytes_max: 4 << 20, ..mllp::ClientConfig::default() };
    let mut client = Client::connect_with(running.addr, config).await.unwrap();
    let answer = client.send(&message).await.unwrap();
    assert!(answer == message);
}

#[tokio::test]
async fn w8_a_truncated_frame_is_quarantined_and_its_resend_accepted() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let outlet = Script(move |arrival: Arrival| {
        kept.lock().unwrap().push(arrival.received.clone());
        async move { matches!(arrival.received, Received::Frame(_)).then(|| content(arrival.received)) }
    });
    let running = serve(ListenerConfig::default(), outlet).await;
    assert_eq!(talk(running.addr, b"\x0bm1 tr\x0bm1 whole\x1c\r").await, framed(["m1 whole"]));
    let head = Bytes::from_static(b"m1 tr");
    let truncated = Received::Quarantined { fault: Fault::Truncated, head, content_bytes: 5 };
    assert_eq!(*seen.lock().unwrap(), [truncated, Received::Frame(Bytes::from_static(b"m1 whole"))]);
}

#[tokio::test]
async fn w9_an_oversize_frame_is_answered_and_the_connection_kept_or_closed() {
    for (on_oversize, answers) in
        [(OnOversize::Skip, framed(["Oversize", "m"])), (OnOversize::Close, framed(["Oversize"]))]
    {
        let mut config = ListenerConfig { on_oversize, ..ListenerConfig::default() };
        config.limits.frame_bytes_max = 1 << 10;
        let running = serve(config, echo()).await;
        let stream = framed(["x".repeat(300 << 10).as_str(), "m"]);
        assert_eq!(talk(running.addr, stream.as_bytes()).await, answers);
        assert_eq!(count(&running.counters.frames_oversize), 1);
    }
}

#[tokio::test]
async fn w19_each_answer_goes_out_on_its_own_socket() {
    let running = serve(ListenerConfig::default(), echo()).await;
    let mut senders = tokio::task::JoinSet::new();
    for sender in 0..8 {
        let addr = running.addr;
        senders.spawn(async move {
            let mut client = Client::connect(addr).await.unwrap();
            let messages: Vec<String> = (0..100).map(|number| format!("{sender}/{number}")).collect();
            let mut answers = Vec::new();
            client.send_all(&messages, 7, |_, answer| answers.push(answer)).await.unwrap();
            assert_eq!(answers, messages);
        });
    }
    senders.join_all().await;
    assert_eq!(count(&running.counters.answers), 800);
}

#[tokio::test]
async fn w20_an_outlet_that_fails_and_recovers() {
    let calls = AtomicUsize::new(0);
    let outlet = Script(move |arrival: Arrival| {
        let failing = calls.fetch_add(1, Ordering::Relaxed) < 2;
        async move { Some(if failing { Bytes::from_static(b"AE 207") } else { content(arrival.received) }) }
    });
    let running = serve(ListenerConfig::default(), outlet).await;
    assert_eq!(talk(running.addr, framed(["m"; 3]).as_bytes()).await, framed(["AE 207", "AE 207", "m"]));
    running.stop.cancel();
    assert_eq!(running.serving.await.unwrap(), Stopped { connections_cut: 0 });
}

#[tokio::test]
async fn w20_silence_writes_no_answer() {
    let running = serve(ListenerConfig::default(), Script(|_| async { None })).await;
    assert_eq!(talk(running.addr, framed(["m"; 3]).as_bytes()).await, "");
    assert_eq!((count(&running.counters.frames), count(&running.counters.answers)), (3, 0));
}

#[tokio::test]
async fn a_panic_closes_its_connection_and_no_other() {
    let outlet = Script(|arrival: Arrival| async move {
        let content = content(arrival.received);
        assert!(content != "boom", "as the test wants it");
        Some(content)
    });
    let running = serve(ListenerConfig::default(), outlet).await;
    let mut other = Client::connect(running.addr).await.unwrap();
    assert_eq!(other.send(b"m1").await.unwrap(), "m1");
    // No answer may take the place of the missing one.
    assert_eq!(talk(running.addr, framed(["m1", "boom", "m2"]).as_bytes()).await, framed(["m1"]));
    assert_eq!(other.send(b"m2").await.unwrap(), "m2");
    assert_eq!(count(&running.counters.outlet_panics), 1);
}

/// Sends 20 frames to an outlet that holds them, lets go when `in_flight` are held, and gives the most ever held.
async fn most_in_flight(config: ListenerConfig, in_flight: usize) -> usize {
    let gate = Arc::new(Semaphore::new(0));
    let (held, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let outlet = {
        let (gate, held, most) = (Arc::clone(&gate), Arc::clone(&held), Arc::clone(&most));
        Script(move |arrival: Arrival| {
            let (gate, held, most) = (Arc::clone(&gate), Arc::clone(&held), Arc::clone(&most));
            async move {
                most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                held.fetch_sub(1, Ordering::SeqCst);
                Some(content(arrival.received))
            }
        })
    };
    let running = serve(config, outlet).await;
    let stream = framed(["message"; 20]);
    let sent = stream.clone();
    let talking = tokio::spawn(async move { talk(running.addr, sent.as_bytes()).await });
    until(|| held.load(Ordering::SeqCst) == in_flight).await;
    gate.add_permits(20);
    assert_eq!(talking.await.unwrap(), stream);
    most.load(Ordering::SeqCst)
}

#[tokio::test]
async fn frames_in_flight_are_bounded_per_connection() {
    let mut config = ListenerConfig::default();
    config.limits.in_flight_frames_max = 3;
    assert_eq!(most_in_flight(config.clone(), 3).await, 3);
    // Two messages of seven bytes reach ten bytes; a third must wait.
    config.limits.in_flight_bytes_max = 10;
    assert_eq!(most_in_flight(config, 2).await, 2);
}

#[tokio::test]
async fn a_sender_that_does_not_wait_for_answers_loses_nothing_read() {
    let running = serve(ListenerConfig::default(), echo()).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    stream.write_all(framed(["m"; 50]).as_bytes()).await.unwrap();
    drop(stream);
    until(|| count(&running.counters.frames) == 50).await;
    until(|| count(&running.counters.connections_open) == 0).await;
}

#[tokio::test]
async fn w21_half_close_still_gets_the_answers_under_way() {
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let outlet = Script(move |arrival: Arrival| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Some(content(arrival.received))
        }
    });
    let running = serve(ListenerConfig::default(), outlet).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    stream.write_all(framed(["m1", "m2"]).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    until(|| count(&running.counters.frames) == 2).await;
    opened.add_permits(2);
    assert_eq!(rest(&mut stream).await, framed(["m1", "m2"]));
    until(|| count(&running.counters.connections_open) == 0).await;
}

#[tokio::test]
async fn w22_connections_over_a_limit_are_refused() {
    for per_peer in [false, true] {
        let mut config = ListenerConfig::default();
        let limit =
            if per_peer { &mut config.limits.connections_per_peer_max } else { &mut config.limits.connections_max };
        *limit = 2;
        let running = serve(config, echo()).await;
        let mut first = Client::connect(running.addr).await.unwrap();
        let mut second = Client::connect(running.addr).await.unwrap();
        assert_eq!(first.send(b"m").await.unwrap(), "m");
        assert_eq!(second.send(b"m").await.unwrap(), "m");
        let mut third = TcpStream::connect(running.addr).await.unwrap();
        assert_eq!(rest(&mut third).await, "");
        let counters = &running.counters;
        let refused = [&counters.connections_refused, &counters.connections_refused_peer].map(count);
        assert_eq!(refused, if per_peer { [0, 1] } else { [1, 0] });
        drop(first);
        until(|| count(&counters.connections_open) == 1).await;
        assert_eq!(Client::connect(running.addr).await.unwrap().send(b"m").await.unwrap(), "m");
    }
}

#[tokio::test]
async fn w23_stop_finishes_what_is_under_way() {
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let outlet = Script(move |arrival: Arrival| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            Some(content(arrival.received))
        }
    });
    let running = serve(ListenerConfig::default(), outlet).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    let sent = b"\x0bm1\x1c\r\x0bm2 half";
    stream.write_all(sent).await.unwrap();
    until(|| count(&running.counters.received_bytes) == sent.len() as u64).await;
    running.stop.cancel();
    while TcpStream::connect(running.addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
    stream.write_all(b" whole\x1c\r").await.unwrap();
    opened.add_permits(2);
    assert_eq!(rest(&mut stream).await, framed(["m1", "m2 half whole"]));
    drop(stream);
    assert_eq!(running.serving.await.unwrap(), Stopped { connections_cut: 0 });
    assert_eq!(count(&running.counters.connections_open), 0);
}

#[tokio::test]
async fn w23_stop_does_not_wait_longer_than_its_deadline() {
    let mut config = ListenerConfig::default();
    config.limits.stop_timeout = Duration::from_millis(1);
    let running = serve(config, Script(|_| std::future::pending())).await;
    let mut stream = TcpStream::connect(running.addr).await.unwrap();
    stream.write_all(framed(["m"]).as_bytes()).await.unwrap();
    until(|| count(&running.counters.frames) == 1).await;
    running.stop.cancel();
    assert_eq!(running.serving.await.unwrap(), Stopped { connections_cut: 1 });
    assert_eq!(count(&running.counters.connections_open), 0);
}
