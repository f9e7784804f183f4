//! No content of messages in logs, metrics, URLs, answers and the output of commands: unique marks in good and bad input,
//! looked for everywhere but in the store and in the bodies sent to the FHIR server.

use std::process::Command;
use std::sync::{Arc, Mutex};

use fhir::Json;
use sandbox::{Failure, Profile, Sandbox};
use tests::adt::{message, pid, pv1};
use tests::gateway_process::GatewayProcess;
use tests::wire::{Answer, conversation, frame};
use tests::{http, scene};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What is about a person in the messages below, each as sent and as R4 has it.
const MARKS: [&str; 14] = [
    "Zzyzxfamily",
    "Qwertgiven",
    "MRN7731x",
    "VIS7731x",
    "0555773199",
    "19330317",
    "1933-03-17",
    "Markstreet",
    "ACC7731x",
    "Docmarkfamily",
    "Kinmark",
    "SSN7731x",
    "Notemark",
    "Mailmark",
];

/// Request lines of everything that goes through.
type Lines = Arc<Mutex<Vec<String>>>;

/// Passes connections on to `to` and keeps the request lines; bodies are no concern here.
async fn recording_proxy(to: String) -> (String, Lines) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let lines = Lines::default();
    let kept = Arc::clone(&lines);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&to).await.expect("the sandbox takes connections");
            let lines = Arc::clone(&kept);
            tokio::spawn(pass(client, server, lines));
        }
    });
    (address, lines)
}

async fn pass(client: TcpStream, server: TcpStream, lines: Lines) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await.is_ok() });
    let mut buffer = vec![0; 65536];
    while let Ok(n @ 1..) = from_client.read(&mut buffer).await {
        let text = String::from_utf8_lossy(&buffer[..n]);
        let requests = text.lines().filter(|line| line.trim_end().ends_with(" HTTP/1.1"));
        lines.lock().expect("no panic").extend(requests.map(str::to_owned));
        if to_server.write_all(&buffer[..n]).await.is_err() {
            break;
        }
    }
    drop(to_server);
    let _passed = back.await;
}

fn sound(control_id: &str, minute: usize, patient: usize) -> String {
    let told = pid(
        &format!("MRN7731x{patient}"),
        "Zzyzxfamily^Qwertgiven||19330317|F|||Markstreet 1^^Ulm||0555773199^PRN^PH~^NET^Internet^Mailmark@example.org||||||ACC7731x|SSN7731x",
    );
    let visit = pv1(&format!("VIS7731x{patient}"), "W1^1", "55^Docmarkfamily^Qwertgiven^^^^^^NORTH", "20240701080000");
    message(
        "A08^ADT_A01",
        control_id,
        &format!("2024070108{minute:02}00"),
        &[&told, &visit, "NK1|1|Kinmark^Qwertgiven|MTH||0555773199", "NTE|1||Notemark"],
    )
}

fn bad() -> Vec<Vec<u8>> {
    let good = |id: &str| sound(id, 1, 1);
    let mut all: Vec<Vec<u8>> = [
        good("B1").replacen("MSH", "msh", 1),
        good("B2").split_once("EVN").map(|(_, rest)| format!("EVN{rest}")).expect("an EVN"),
        good("B3").replacen("^~\\&", "^^^^", 1),
        good("B4").replacen("ADT^A08^ADT_A01", "", 1),
        good(""),
        good("B6").replacen("|P|", "|Zzyzxfamily|", 1),
        good("B7").replacen("|2.5.1", "|Zzyzxfamily", 1),
        good("B8").replacen("MRN7731x1^^^NORTH^MR", "MRN7731x1", 1),
        good("B9").replacen("MRN7731x1^^^NORTH^MR", "", 1),
        good("B10").replacen("|19330317|", "|19330317Zzyzxfamily|", 1),
        good("B11").replacen("ADT^A08^ADT_A01", "ORU^R01^ORU_R01", 1),
        good("B12").replacen("|F|", "|Zzyzxfamily|", 1),
        good("B13").replace("20240701080100", "Zzyzxfamily"),
        good("B14").replacen("VIS7731x1^^^NORTH^VN", "VIS7731x1", 1),
        good("B15").replacen("|2.5.1", "|2.5.1||||||Zzyzxfamily", 1),
        "Zzyzxfamily Qwertgiven MRN7731x".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec();
    all.push([good("B16").as_bytes(), b"ZZZ|\xff\xfeZzyzxfamily\r"].concat());
    all.push(good("B17").encode_utf16().flat_map(u16::to_le_bytes).collect());
    all.push(format!("{}{}", good("B18"), "NTE|2||Zzyzxfamily\r".repeat(9000)).into_bytes());
    all
}

fn assert_quiet(what: &str, text: &str) {
    for mark in MARKS {
        let line = text.lines().find(|line| line.contains(mark));
        assert!(line.is_none(), "{what} has {mark}: {}", line.unwrap_or_default());
    }
}

async fn send(gateway: &GatewayProcess, bytes: &[u8]) -> Vec<Answer> {
    let answers = conversation(gateway.mllp.as_str(), bytes).await;
    for answer in &answers {
        // MSH is the sender's own and goes back as it came; that is the standard's answer (HL7 v2.5.1 §2.9.2).
        let told: Vec<String> =
            answer.text().split('\r').filter(|s| !s.starts_with("MSH")).map(str::to_owned).collect();
        assert_quiet("an answer", &told.join("\n"));
    }
    answers
}

/// The server in all its moods, and somebody else writing to it.
async fn moods(gateway: &GatewayProcess, sandbox: &Sandbox, base_url: &str) {
    let client = http::client();
    let failing = |status, times| Some(Failure { status, times, retry_after_s: None });
    let mut minute = 10;
    let mut next = |sandbox_change: &dyn Fn(&mut Profile), patient: usize| {
        sandbox.set_profile(sandbox_change);
        minute += 1;
        frame(sound(&format!("S{minute}"), minute, patient))
    };
    for frame in [
        next(&|p| p.fails_with = failing(503, 2), 1),
        next(&|p| p.resets_after_apply = 1, 1),
        next(&|p| p.truncates_body = 2, 1),
    ] {
        send(gateway, &frame).await;
        gateway.drained().await;
    }
    // A version conflict that comes as a page.
    let patient = sandbox.resources().into_iter().find(|r| r.resource_type() == Some("Patient")).expect("a patient");
    let id = patient.get("id").and_then(Json::as_str).expect("an id");
    let theirs = patient.to_string().replace("female", "male");
    let put = client.put(format!("{base_url}/Patient/{id}")).header("content-type", "application/fhir+json");
    put.body(theirs).send().await.expect("the sandbox answers");
    send(gateway, &next(&|p| p.returns_html_errors = 1, 1)).await;
    gateway.drained().await;
    // Refused for what it says, with the content in the diagnostics; several patients of one number.
    for twin in ["t1", "t2"] {
        let twin = format!(
            r#"{{"resourceType":"Patient","id":"{twin}","identifier":[{{"system":"urn:id:NORTH","value":"MRN7731x5"}}]}}"#
        );
        let id = Json::parse(&twin).expect("JSON").get("id").and_then(Json::as_str).expect("an id").to_owned();
        let put = client.put(format!("{base_url}/Patient/{id}")).header("content-type", "application/fhir+json");
        put.body(twin).send().await.expect("the sandbox answers");
    }
    send(gateway, &next(&|_| {}, 5)).await;
    let parked = async || tests::metrics::value(&client, &gateway.http, "sluice_subjects_parked", "").await;
    scene::until("the subject of two patients is parked", async || parked().await >= 1.0).await;
    send(gateway, &next(&|p| p.fails_with = failing(422, 1), 1)).await;
    scene::until("the refused subject is parked", async || parked().await >= 2.0).await;
}

fn sluice(arguments: &[&str], config: &std::path::Path) -> String {
    let output = Command::new(assert_cmd::cargo::cargo_bin("sluice"))
        .args(arguments)
        .arg("--config")
        .arg(config)
        .output()
        .expect("sluice runs");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_about_a_person_leaves_but_in_bodies_to_the_server() {
    let server = scene::sandbox(Profile::default()).await;
    let (proxy, lines) = recording_proxy(server.base_url.replace("http://", "").replace("/fhir", "")).await;
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        "frame_bytes_max = 100000\n[log]\nlevel = \"debug\"\n[deliver]\nretry_first_ms = 5\nretry_max_s = 1\n";
    let mut gateway = GatewayProcess::start(folder.path(), &format!("http://{proxy}/fhir"), settings).await;

    let answers =
        send(&gateway, &(0..6).flat_map(|n| frame(sound(&format!("G{n}"), n, n % 3))).collect::<Vec<_>>()).await;
    assert!(answers.len() == 6 && answers.iter().all(|a| a.code() == "AA"), "{answers:?}");
    let cases = bad();
    let answers = send(&gateway, &cases.iter().flat_map(frame).collect::<Vec<_>>()).await;
    assert_eq!(answers.len(), cases.len());
    let mut cut = frame(sound("CUT", 30, 1));
    cut.truncate(150);
    send(&gateway, &cut).await;
    gateway.drained().await;
    moods(&gateway, &server.sandbox, &server.base_url).await;

    // The marks are there where they belong, or all silence would prove nothing.
    let held: String = server.sandbox.resources().iter().map(Json::to_string).collect();
    for mark in MARKS.iter().filter(|mark| !matches!(**mark, "19330317" | "Notemark")) {
        assert!(held.contains(mark), "{mark} never reached the server");
    }
    let client = http::client();
    let metrics = client.get(format!("http://{}/metrics", gateway.http)).send().await.expect("metrics");
    assert_quiet("the metrics", &metrics.text().await.expect("text"));
    let paths = lines.lock().expect("no panic").join("\n");
    assert!(paths.contains("POST /fhir"), "nothing was recorded");
    assert_quiet("a URL", &paths);
    let stopped = tokio::task::spawn_blocking(move || (gateway.terminate(), gateway)).await;
    let (code, gateway) = stopped.expect("it stops");
    assert_eq!(code, Some(0));
    let log = gateway.log();
    assert!(log.contains("FHIR_MULTIPLE_MATCHES") && log.contains("FHIR_REFUSED"), "the moods are in the log");
    assert!(log.contains("\"level\":\"DEBUG\""), "the log is at debug level");
    assert_quiet("the log", &log);

    let config = folder.path().join("sluice.toml");
    for arguments in [
        vec!["doctor"],
        vec!["trace", "G1"],
        vec!["trace", "B8"],
        vec!["trace", "S14"],
        vec!["retry", "--list"],
        vec!["retry"],
    ] {
        let said = sluice(&arguments, &config);
        assert!(!said.is_empty(), "{arguments:?} says nothing");
        assert_quiet(&arguments.join(" "), &said);
    }
}
