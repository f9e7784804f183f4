//! What happens on the wire between the server and us: a relay in front of a sandbox answers in the server's stead, cuts
//! connections, or keeps silent.

mod scene;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox::{Profile, Running};
use scene::{config, encounter, patient, sandbox, settle, transact};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use writer::{Config, ConnectError, Ownership, Reason, TransactError, Writer, Written};

/// What the relay does with a request instead of passing it on.
enum Act {
    /// Answers with this and closes.
    Answer(Vec<u8>),
    /// Answers nothing until the client gives up.
    Silence,
}

struct Relay {
    running: Running,
    base_url: String,
    acts: Arc<Mutex<VecDeque<Act>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    async fn start() -> Self {
        let running = sandbox(Profile::default()).await;
        let listener = TcpListener::bind(scene::ANY_PORT).await.unwrap();
        let base_url = format!("http://{}/fhir", listener.local_addr().unwrap());
        let server: SocketAddr =
            running.base_url.trim_start_matches("http://").trim_end_matches("/fhir").parse().unwrap();
        let (acts, seen) = (Arc::<Mutex<VecDeque<Act>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (acts_taken, requests) = (Arc::clone(&acts), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acts, requests) = (Arc::clone(&acts_taken), Arc::clone(&requests));
                tokio::spawn(relay(client, server, acts, requests));
            }
        });
        Self { running, base_url, acts, seen }
    }

    async fn writer(&self) -> Writer {
        let config = Config { ownership: Ownership::Exclusive, ..config(&self.base_url) };
        Writer::connect(Config { request_timeout: Duration::from_secs(20), ..config }).await.unwrap()
    }

    fn act(&self, act: Act) {
        self.acts.lock().unwrap().push_back(act);
    }
}

/// One request, one answer, one connection.
async fn relay(
    mut client: TcpStream,
    server: SocketAddr,
    acts: Arc<Mutex<VecDeque<Act>>>,
    seen: Arc<Mutex<Vec<String>>>,
) {
    let Some(request) = request(&mut client).await else { return };
    seen.lock().unwrap().push(String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned());
    let act = acts.lock().unwrap().pop_front();
    let answer = match act {
        Some(Act::Answer(answer)) => answer,
        Some(Act::Silence) => {
            // Ends when the client closes.
            let _ended = client.read_to_end(&mut Vec::new()).await;
            return;
        }
        None => pass_on(server, &request).await,
    };
    // The client may have closed: then nobody waits for the answer.
    let _sent = client.write_all(&answer).await;
}

async fn pass_on(server: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut server = TcpStream::connect(server).await.unwrap();
    let at = request.windows(2).position(|two| two == b"\r\n").unwrap();
    server.write_all(&request[..at]).await.unwrap();
    server.write_all(b"\r\nconnection: close").await.unwrap();
    server.write_all(&request[at..]).await.unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await.unwrap();
    answer
}

async fn request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        let end = request.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if request.len() >= end + 4 + length.map_or(0, |length| length.parse::<usize>().unwrap()) {
                return Some(request);
            }
        }
        let mut buffer = [0; 4096];
        match client.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => request.extend_from_slice(&buffer[..read]),
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}").into_bytes()
}

fn outcome(code: &str) -> String {
    format!(
        r#"{{"resourceType":"OperationOutcome","issue":[{{"severity":"error","code":"{code}","diagnostics":"4711"}}]}}"#
    )
}

async fn failure(relay: &Relay, writer: &Writer, act: Act) -> TransactError {
    relay.act(act);
    transact(writer, &[&patient("1", "A")]).await.unwrap_err()
}

#[tokio::test]
async fn answers_that_say_nothing_leave_the_outcome_unknown() {
    let relay = Relay::start().await;
    let writer = relay.writer().await;
    let whole = answer("200 OK", "", r#"{"resourceType":"Bundle","type":"transaction-response"}"#);
    let cases = [
        (Act::Answer(Vec::new()), Reason::ConnectionLost),
        (Act::Answer(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()), Reason::ConnectionLost),
        (Act::Answer(whole[..whole.len() - 5].to_vec()), Reason::ConnectionLost),
        (Act::Answer(whole.clone()), Reason::NotAnAnswer),
        (Act::Answer(answer("200 OK", "content-type: text/html\r\n", "<html>Sign in</html>")), Reason::NotJson),
        (Act::Answer(answer("200 OK", "", "")), Reason::NotJson),
        (Act::Answer(answer("200 OK", "", r#"{"resourceType":"Patient"}"#)), Reason::NotAnAnswer),
        (Act::Answer(answer("202 Accepted", "", &outcome("informational"))), Reason::NotAnAnswer),
        (Act::Answer(answer("408 Request Timeout", "", "")), Reason::Status(408)),
        (Act::Answer(answer("500 Oops", "", &outcome("exception"))), Reason::Status(500)),
        (Act::Answer(answer("503 Service Unavailable", "", "no healthy upstream")), Reason::Status(503)),
        (Act::Answer(answer("504 Gateway Timeout", "retry-after: 3\r\n", "")), Reason::Status(504)),
    ];
    for (act, reason) in cases {
        let error = failure(&relay, &writer, act).await;
        assert!(matches!(error, TransactError::Unknown { reason: r, .. } if r == reason), "{error:?} not {reason:?}");
        assert!(!error.certainly_not_written());
    }
    assert_eq!(relay.running.sandbox.counters().creates, 3, "the probe's alone");
}

#[tokio::test]
async fn an_entry_that_failed_in_a_transaction_that_did_not_is_unknown() {
    let relay = Relay::start().await;
    let writer = relay.writer().await;
    for entry in [
        r#"{"response":{"status":"404 Not Found"}}"#,
        r#"{"response":{"status":"201 Created"}}"#,
        r#"{"response":{"status":"201 Created","location":"Person/1/_history/1"}}"#,
    ] {
        let body = format!(r#"{{"resourceType":"Bundle","type":"transaction-response","entry":[{entry}]}}"#);
        let error = failure(&relay, &writer, Act::Answer(answer("200 OK", "", &body))).await;
        assert_eq!(error, TransactError::Unknown { reason: Reason::NotAnAnswer, retry_after: None });
    }
}

#[tokio::test]
async fn ids_and_versions_are_read_from_whatever_form_they_have() {
    let relay = Relay::start().await;
    let writer = relay.writer().await;
    for (response, etag) in [
        (r#""location":"http://elsewhere:8090/fhir/Patient/7/_history/3""#, Some("W/\"3\"")),
        (r#""location":"Patient/7/_history/3","etag":"W/\"4\"""#, Some("W/\"4\"")),
        (r#""location":"Patient/7","etag":"\"4\"""#, Some("W/\"4\"")),
        (r#""location":"Patient/7""#, None),
    ] {
        let body = format!(
            r#"{{"resourceType":"Bundle","type":"transaction-response","entry":[{{"response":{{"status":"200",{response}}}}}]}}"#
        );
        relay.act(Act::Answer(answer("200 OK", "", &body)));
        let written = transact(&writer, &[&patient("1", "A")]).await.unwrap().remove(0);
        let Written { server_id, created, .. } = &written;
        assert_eq!((server_id.as_str(), written.etag.as_deref(), *created), ("Patient/7", etag, false));
    }
}

#[tokio::test]
async fn refusals_before_anything_was_looked_into() {
    let relay = Relay::start().await;
    let writer = relay.writer().await;
    for status in [307, 404, 405, 429] {
        let headers = "retry-after: 2\r\nlocation: http://127.0.0.1:1/\r\n";
        let act = Act::Answer(answer(&format!("{status} No"), headers, "<html>No</html>"));
        let error = failure(&relay, &writer, act).await;
        let retry_after = Some(Duration::from_secs(2));
        assert_eq!(error, TransactError::Unavailable { reason: Reason::Status(status), retry_after });
    }
    for (status, body) in [(404, outcome("not-found")), (415, String::new()), (400, outcome("invalid"))] {
        let error = failure(&relay, &writer, Act::Answer(answer(&format!("{status} No"), "", &body))).await;
        assert!(matches!(error, TransactError::Refused { status: s, .. } if s == status), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("4711"));
    }
}

#[tokio::test]
async fn a_failed_if_match_answered_with_400_is_a_conflict() {
    let relay = Relay::start().await;
    let writer = relay.writer().await;
    let mut p = patient("1", "A");
    settle(&writer, &mut [&mut p]).await;
    let stale = p.clone();
    p.resource = patient("1", "B").resource;
    settle(&writer, &mut [&mut p]).await;
    for status in [400, 404, 412, 422] {
        let refusal = || Act::Answer(answer(&format!("{status} No"), "", &outcome("processing")));
        relay.act(refusal());
        let new = encounter("v1", &p);
        let error = transact(&writer, &[&stale, &new]).await.unwrap_err();
        assert_eq!(error, TransactError::Conflict { full_urls: vec![p.key.full_url()] }, "{status}");
        // The same with current versions is about something else.
        relay.act(refusal());
        match transact(&writer, &[&p, &new]).await.unwrap_err() {
            TransactError::MultipleMatches { .. } => assert_eq!(status, 412),
            TransactError::Refused { status: refused, .. } => assert_eq!(refused, status),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn silence_ends_with_the_time_out_and_was_perhaps_written() {
    let relay = Relay::start().await;
    let config = Config { request_timeout: Duration::from_secs(2), ..config(&relay.base_url) };
    let writer = Writer::connect(Config { ownership: Ownership::Exclusive, ..config }).await.unwrap();
    let error = failure(&relay, &writer, Act::Silence).await;
    assert_eq!(error, TransactError::Unknown { reason: Reason::TimedOut, retry_after: None });
}

#[tokio::test]
async fn an_endless_answer_is_not_read_to_its_end() {
    let relay = Relay::start().await;
    let config = Config { answer_bytes_max: 1 << 20, ownership: Ownership::Exclusive, ..config(&relay.base_url) };
    let writer = Writer::connect(config).await.unwrap();
    let error = failure(&relay, &writer, Act::Answer(answer("200 OK", "", &" ".repeat((1 << 20) + 1)))).await;
    assert_eq!(error, TransactError::Unknown { reason: Reason::AnswerTooLong, retry_after: None });
}

#[tokio::test]
async fn no_url_names_a_patient() {
    let relay = Relay::start().await;
    let writer = Writer::connect(config(&relay.base_url)).await.unwrap();
    let mut p = patient("4711", "A");
    settle(&writer, &mut [&mut p]).await;
    writer.reread(&[p], &writer::Targets::new()).await.unwrap();
    let seen = relay.seen.lock().unwrap().clone();
    let expected = ["GET /fhir/metadata HTTP/1.1", "POST /fhir HTTP/1.1"];
    assert!(seen.iter().all(|line| expected.contains(&line.as_str())), "{seen:?}");
}

#[tokio::test]
async fn servers_that_are_refused() {
    let statement = |version: &str, interaction: &str| {
        answer(
            "200 OK",
            "",
            &format!(
                r#"{{"resourceType":"CapabilityStatement","fhirVersion":"{version}","rest":[{{"mode":"server","interaction":[{{"code":"{interaction}"}}]}}]}}"#
            ),
        )
    };
    let relay = Relay::start().await;
    let connect = async |answer: Vec<u8>| {
        relay.act(Act::Answer(answer));
        Writer::connect(config(&relay.base_url)).await.unwrap_err()
    };
    assert!(
        matches!(connect(statement("4.3.0", "transaction")).await, ConnectError::Version { found } if found == "4.3.0")
    );
    assert!(
        matches!(connect(statement("4.0.1", "batch")).await, ConnectError::Unsuitable(why) if why.contains("transactions"))
    );
    assert!(matches!(connect(answer("200 OK", "", "<html>")).await, ConnectError::NoStatement { status: 200 }));
    assert!(matches!(connect(answer("404 No", "", "{}")).await, ConnectError::NoStatement { status: 404 }));
    assert!(matches!(
        connect(answer("200 OK", "", r#"{"resourceType":"Patient"}"#)).await,
        ConnectError::NoStatement { .. }
    ));
    assert!(connect(answer("502 Bad Gateway", "", "")).await.is_transient());
    assert_eq!(relay.running.sandbox.counters().requests, 0);
}
