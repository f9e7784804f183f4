//! The client against listeners that do not behave.

use std::net::SocketAddr;
use std::time::Duration;

use mllp::{Client, ClientConfig, ConnectError, SendError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A peer that reads one byte, writes `answer`, and then closes or stays.
async fn peer(answer: &'static [u8], stays: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut message = [0; 64];
        let _ = stream.read(&mut message).await.unwrap();
        stream.write_all(answer).await.unwrap();
        if stays {
            std::future::pending::<()>().await;
        }
    });
    addr
}

async fn send(answer: &'static [u8], stays: bool) -> (SendError, SendError) {
    let config = ClientConfig { answer_timeout: Duration::from_millis(50), ..ClientConfig::default() };
    let mut client = Client::connect_with(peer(answer, stays).await, config).await.unwrap();
    (client.send(b"m").await.unwrap_err(), client.send(b"m").await.unwrap_err())
}

#[tokio::test]
async fn after_a_failure_the_client_is_out_of_step() {
    let (first, second) = send(b"", false).await;
    assert!(matches!(first, SendError::Closed | SendError::Io(_)), "{first:?}");
    assert!(!first.certainly_not_sent());
    assert!(matches!(second, SendError::OutOfStep), "{second:?}");
    assert!(second.certainly_not_sent());
}

#[tokio::test]
async fn a_listener_that_does_not_answer_is_given_up() {
    assert!(matches!(send(b"", true).await.0, SendError::Timeout(_)));
}

#[tokio::test]
async fn an_answer_that_is_no_frame() {
    const PAGE: &[u8] = &[b'<'; 5_000];
    let first = send(PAGE, true).await.0;
    assert!(matches!(first, SendError::Answer(_)), "{first:?}");
    let first = send(b"\x0bMSA|A\x0bMSA|AA\x1c\r", true).await.0;
    assert!(matches!(first, SendError::AnswerQuarantined(mllp::Fault::Truncated)), "{first:?}");
}

#[tokio::test]
async fn a_message_with_a_delimiter_is_refused_and_the_client_stays_in_step() {
    let mut client = Client::connect(peer(b"\x0bAA\x1c\r", true).await).await.unwrap();
    let refused = client.send(b"m\x1c\r").await.unwrap_err();
    assert!(refused.certainly_not_sent());
    assert_eq!(client.send(b"m").await.unwrap(), "AA");
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    assert!(matches!(Client::connect(addr).await, Err(ConnectError::Io(_))));
}

#[tokio::test]
async fn the_echo_measures() {
    assert!(mllp::bench::echo(4, 41, b"MSH|^~\\&|").await.unwrap() > Duration::ZERO);
    assert!(mllp::bench::echo_pipelined(2, 41, 8, b"MSH|^~\\&|").await.unwrap() > Duration::ZERO);
}
