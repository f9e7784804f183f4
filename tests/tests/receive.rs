//! Receive over a real socket: what each kind of bad input is answered with and stored as, the decision table of DESIGN
//! §4, and the rules of the wire (one answer per frame, in order, on its own connection).

use sandbox::Profile;
use store::{Status, Verdict};
use tests::adt::{message, pid, pv1, stamped};
use tests::scene::{Scene, Settings, until};
use tests::wire::{Answer, conversation, frame};

/// A frame, and what is said about it.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    /// MSA-1, ERR-2, ERR-3.1, ERR-5.
    answer: [&'static str; 4],
    verdict: Verdict,
}

fn case(name: &'static str, bytes: impl Into<Vec<u8>>, answer: [&'static str; 4]) -> Case {
    let verdict = match answer[3] {
        "UNSUPPORTED_EVENT" | "NO_PATIENT_IDENTITY" | "CLOCK_MISSING" => Verdict::Parked,
        "INVALID_DATE" | "" => Verdict::Applied,
        _ => Verdict::Rejected,
    };
    Case { name, bytes: bytes.into(), answer, verdict }
}

/// A message that is sound but for what `change` makes of it.
fn spoilt(control_id: &str, change: impl FnOnce(String) -> String) -> String {
    change(message(
        "A01^ADT_A01",
        control_id,
        "20240301101500",
        &[
            &pid(&format!("M-{control_id}"), "Spoilt^Sam||19700102|M"),
            &pv1(&format!("V-{control_id}"), "3W^12^A^NORTH", "", ""),
        ],
    ))
}

fn utf_16(text: &str) -> Vec<u8> {
    [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
}

fn no_message() -> Vec<Case> {
    let mut bytes = spoilt("B5", |m| m).into_bytes();
    bytes.splice(0..3, b"MSH".iter().copied());
    vec![
        case("no MSH", "PID|1||1^^^NORTH^MR\r", ["AR", "MSH^1", "100", "NOT_HL7"]),
        case("a log line", "2024-03-01 10:15 WARN out of paper", ["AR", "MSH^1", "100", "NOT_HL7"]),
        case("lower-case msh", spoilt("B1", |m| m.replacen("MSH", "msh", 1)), ["AR", "MSH^1", "100", "NOT_HL7"]),
        case("MSH not first", format!("EVN|A01|20240301\r{}", spoilt("B2", |m| m)), ["AR", "MSH^1", "100", "NOT_HL7"]),
        case("no frame content", "", ["AR", "", "100", "FRAME_EMPTY"]),
        case("white space alone", "\r\n \r", ["AR", "", "100", "FRAME_EMPTY"]),
        case("MSH alone", "MSH", ["AR", "MSH^1", "100", "NOT_HL7"]),
        case(
            "one delimiter twice",
            spoilt("B3", |m| m.replacen("^~\\&", "^^\\&", 1)),
            ["AR", "MSH^1^2", "102", "DELIMITERS_INVALID"],
        ),
        case(
            "a letter separates",
            spoilt("B4", |m| m.replacen("MSH|^~\\&|", "MSHA^~\\&A", 1)),
            ["AR", "MSH^1", "100", "NOT_HL7"],
        ),
        case("UTF-16", utf_16(&spoilt("B6", |m| m)), ["AR", "", "102", "CHARSET_UNSUPPORTED"]),
    ]
}

fn refused_headers() -> Vec<Case> {
    vec![
        case(
            "no MSH-9",
            spoilt("H1", |m| m.replacen("ADT^A01^ADT_A01", "", 1)),
            ["AR", "MSH^1^9", "101", "MESSAGE_TYPE_MISSING"],
        ),
        case(
            "no MSH-9.1",
            spoilt("H2", |m| m.replacen("ADT^A01^ADT_A01", "^A01", 1)),
            ["AR", "MSH^1^9", "101", "MESSAGE_TYPE_MISSING"],
        ),
        case("no MSH-10", spoilt("", |m| m), ["AR", "MSH^1^10", "101", "CONTROL_ID_MISSING"]),
        case("null MSH-10", spoilt("\"\"", |m| m), ["AR", "MSH^1^10", "101", "CONTROL_ID_MISSING"]),
        case(
            "version 3",
            spoilt("H4", |m| m.replacen("|2.5.1", "|3.0", 1)),
            ["AR", "MSH^1^12", "203", "VERSION_UNSUPPORTED"],
        ),
        case(
            "MSH-11 unknown",
            spoilt("H5", |m| m.replacen("|P|", "|X|", 1)),
            ["AR", "MSH^1^11", "202", "PROCESSING_ID_UNSUPPORTED"],
        ),
        // Nothing of these is needed, so nothing is refused (W13).
        case("no MSH-12", spoilt("H6", |m| m.replacen("|2.5.1", "|", 1)), ["AA", "", "", ""]),
        case("MSH-6 ^^", spoilt("H7", |m| m.replacen("|HUB|", "|^^|", 1)), ["AA", "", "", ""]),
        case("no MSH-4", spoilt("H8", |m| m.replacen("|NORTH|", "||", 1)), ["AA", "", "", ""]),
        case("MSH-9 of one component", spoilt("H9", |m| m.replacen("ADT^A01^ADT_A01", "ADT", 1)), ["AA", "", "", ""]),
        case("no structure", spoilt("H10", |m| m.replacen("^ADT_A01", "", 1)), ["AA", "", "", ""]),
        case("unknown charset", spoilt("H11", |m| m.replacen("|2.5.1", "|2.5.1||||||KLINGON", 1)), ["AA", "", "", ""]),
    ]
}

fn content() -> Vec<Case> {
    let clock = "20240301101500";
    let without_pid = message("A01^ADT_A01", "C1", clock, &[&pv1("V-C1", "", "", "")]);
    let undecodable = [spoilt("C10", |m| m).as_bytes(), b"NTE|1||\xff\xfe\xe4\r"].concat();
    vec![
        case("no PID", without_pid, ["AE", "PID^1^3", "101", "NO_PATIENT_IDENTITY"]),
        case(
            "no PID-3",
            spoilt("C2", |m| m.replacen("M-C2^^^NORTH^MR", "", 1)),
            ["AE", "PID^1^3", "101", "NO_PATIENT_IDENTITY"],
        ),
        case(
            "PID-3 without authority",
            spoilt("C3", |m| m.replacen("^^^NORTH^MR", "", 1)),
            ["AE", "PID^1^3", "101", "NO_PATIENT_IDENTITY"],
        ),
        case(
            "null PID-3",
            spoilt("C4", |m| m.replacen("M-C4^^^NORTH^MR", "\"\"", 1)),
            ["AE", "PID^1^3", "101", "NO_PATIENT_IDENTITY"],
        ),
        case(
            "unknown event",
            message("Z99", "C5", clock, &[&pid("M-C5", "Zett^Zoe")]),
            ["AA", "MSH^1^9", "201", "UNSUPPORTED_EVENT"],
        ),
        case(
            "a result",
            spoilt("C6", |m| m.replacen("ADT^A01^ADT_A01", "ORU^R01^ORU_R01", 1)),
            ["AA", "MSH^1^9", "201", "UNSUPPORTED_EVENT"],
        ),
        case(
            "no such birthday",
            spoilt("C7", |m| m.replacen("19700102", "19700230", 1)),
            ["AA", "PID^1^7", "102", "INVALID_DATE"],
        ),
        case(
            "no such EVN-2",
            stamped("A01^ADT_A01", "C8", clock, "20241301", &[&pid("M-C8", "Acht^Ada")]),
            ["AA", "EVN^1^2", "102", "INVALID_DATE"],
        ),
        case(
            "no clock at all",
            stamped("A01^ADT_A01", "C9", "", "", &[&pid("M-C9", "Neun^Nia")]),
            ["AE", "EVN^1^2", "101", "CLOCK_MISSING"],
        ),
        case("undecodable bytes", undecodable, ["AA", "", "", ""]),
    ]
}

/// The location up to the field: deeper parts may be named, too.
fn field_of(location: &str) -> String {
    location.split('^').take(3).collect::<Vec<_>>().join("^").trim_end_matches('^').to_owned()
}

fn assert_answer(case: &Case, answer: &Answer) {
    let [code, location, condition, application_code] = case.answer;
    let text = answer.text();
    let name = case.name;
    assert_eq!(answer.code(), code, "{name}: {text}");
    assert_eq!(field_of(&answer.field("ERR", 2)), location, "{name}: {text}");
    assert_eq!(answer.field("ERR", 3).split('^').next(), Some(condition), "{name}: {text}");
    assert_eq!(answer.field("ERR", 5), application_code, "{name}: {text}");
    assert_eq!(text.split('\r').filter(|line| line.starts_with("MSA")).count(), 1, "{name}: {text}");
    assert!(text.ends_with('\r'), "{name}: the last segment is open");
    assert!(!answer.field("MSH", 10).is_empty() && !answer.field("MSH", 7).is_empty(), "{name}: {text}");
}

/// Each case between two sound messages on one connection: three answers, one row each.
async fn assert_cases(scene: &Scene, cases: Vec<Case>) {
    for (i, case) in cases.iter().enumerate() {
        let (before, of_verdict) = (scene.receipts_all().await, scene.receipts(case.verdict).await);
        let alerts = scene.alerts(case.answer[3]);
        let sound = |n: usize| spoilt(&format!("SOUND-{i}-{n}"), |m| m);
        let bytes = [frame(sound(1)), frame(&case.bytes), frame(sound(2))].concat();
        let answers = scene.send_bytes(&bytes).await;
        assert_eq!(answers.len(), 3, "{}: {answers:?}", case.name);
        assert_eq!((answers[0].code().as_str(), answers[2].code().as_str()), ("AA", "AA"), "{}", case.name);
        assert_answer(case, &answers[1]);
        assert_eq!(scene.receipts_all().await, before + 3, "{}: rows", case.name);
        let own = if case.verdict == Verdict::Applied { 3 } else { 1 };
        assert_eq!(scene.receipts(case.verdict).await, of_verdict + own, "{}: verdict", case.name);
        if case.verdict != Verdict::Applied {
            let alerted = scene.alerts(case.answer[3]);
            assert_eq!(alerted, alerts + 1, "{}: alert", case.name);
        }
        let traced = scene.trace(&answers[1].control_id()).await;
        if let Some(receipt) = traced.receipts.first() {
            let expected = Some(case.answer[3]).filter(|_| case.verdict != Verdict::Applied);
            assert_eq!(receipt.code.as_deref(), expected, "{}", case.name);
            let raw = scene.gateway.store.raw(&receipt.receipt_id).await.expect("the store reads");
            assert_eq!(raw.as_deref(), Some(case.bytes.as_slice()), "{}: the bytes are kept", case.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn w13_w26_what_is_no_message_is_answered_once_and_kept() {
    let scene = Scene::start().await;
    assert_cases(&scene, no_message()).await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w13_headers_are_refused_for_what_is_needed_of_them_and_for_nothing_else() {
    let scene = Scene::start().await;
    assert_cases(&scene, refused_headers()).await;
    scene.drained().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_errors_say_where_and_are_kept_for_a_retry() {
    let scene = Scene::start().await;
    assert_cases(&scene, content()).await;
    scene.drained().await;
    let parked = scene.gateway.store.parked_messages(None, None, 100).await.expect("the store lists");
    let codes: Vec<&str> = parked.iter().map(|row| row.code.as_str()).collect();
    assert_eq!(codes.len(), 7, "{codes:?}");
    // An invalid birthday is left out, the rest of the patient is there.
    let patient = scene.resource("Patient", "M-C7");
    assert!(patient.get("birthDate").is_none() && patient.get("name").is_some(), "{patient}");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w9_an_oversize_frame_is_answered_and_its_head_kept() {
    let settings = Settings { listener: "frame_bytes_max = 4096".into(), ..Settings::default() };
    let scene = Scene::with(settings, Profile::default()).await;
    let large = spoilt("L1", |m| m + &"NTE|1||much too long\r".repeat(1000));
    let bytes = [frame(&large), frame(spoilt("L2", |m| m))].concat();
    let answers = scene.send_bytes(&bytes).await;
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!((answers[0].code().as_str(), answers[0].control_id().as_str()), ("AR", "L1"), "{}", answers[0].text());
    assert_eq!(answers[0].field("ERR", 5), "FRAME_TOO_LARGE");
    assert!(answers[0].field("ERR", 8).contains("frame_bytes_max"), "the limit is named");
    assert_eq!((answers[1].code().as_str(), answers[1].control_id().as_str()), ("AA", "L2"));
    assert_eq!(scene.receipts(Verdict::Rejected).await, 1);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w8_a_truncated_frame_is_kept_and_its_resend_taken() {
    let scene = Scene::start().await;
    let whole = spoilt("T1", |m| m);
    let mut bytes = frame(&whole);
    bytes.truncate(60);
    bytes.extend(frame(&whole));
    let answers = scene.send_bytes(&bytes).await;
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((answers[0].code().as_str(), answers[0].control_id().as_str()), ("AA", "T1"));
    assert_eq!(scene.receipts(Verdict::Rejected).await, 1, "the truncated frame is a row");
    assert_eq!(scene.receipts(Verdict::Applied).await, 1);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w7_a_frame_that_never_ends_is_kept_and_not_answered() {
    let scene = Scene::start().await;
    let mut bytes = frame(spoilt("T2", |m| m));
    bytes.truncate(80);
    assert!(scene.send_bytes(&bytes).await.is_empty());
    until("the unfinished frame is a row", async || scene.receipts(Verdict::Rejected).await == 1).await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w15_an_acknowledgement_is_never_answered() {
    let scene = Scene::start().await;
    let ack = "MSH|^~\\&|HUB|NORTH|WARD|NORTH|20240301||ACK^A01^ACK|K1|P|2.5.1\rMSA|AA|K0\r";
    let error = "MSH|^~\\&|HUB|NORTH|WARD|NORTH|20240301||ACK|K2|P|2.3\rMSA|AE|K0|no\r";
    let headless = "MSH|^~\\&|HUB|NORTH|WARD|NORTH|20240301|||K3|P|2.3\rMSA|AA|K0\r";
    let answers = scene.send(&[ack, error, headless, &spoilt("K4", |m| m)]).await;
    let ids: Vec<String> = answers.iter().map(Answer::control_id).collect();
    assert_eq!(ids, ["K4"], "{answers:?}");
    assert_eq!(scene.receipts_all().await, 4, "they are kept all the same");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w1_pipelined_frames_are_answered_in_order_also_when_nobody_waits() {
    let scene = Scene::start().await;
    let ids: Vec<String> = (0..150).map(|n| format!("P{n}")).collect();
    let messages: Vec<String> = ids.iter().map(|id| spoilt(id, |m| m)).collect();
    let answers = scene.send(&messages).await;
    assert_eq!(answers.iter().map(Answer::control_id).collect::<Vec<_>>(), ids);
    assert!(answers.iter().all(|a| a.code() == "AA"));
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn w19_each_answer_on_its_own_connection() {
    let scene = Scene::start().await;
    let addr = scene.gateway.mllp[0];
    let of = |who: &str| -> Vec<u8> { (0..40).flat_map(|n| frame(spoilt(&format!("{who}{n}"), |m| m))).collect() };
    let (left, right) = (of("L"), of("R"));
    let (left, right) = tokio::join!(conversation(addr, &left), conversation(addr, &right));
    for (who, answers) in [("L", left), ("R", right)] {
        let ids: Vec<String> = answers.iter().map(Answer::control_id).collect();
        assert_eq!(ids, (0..40).map(|n| format!("{who}{n}")).collect::<Vec<_>>());
    }
    scene.stop().await;
}

/// A resend from which nothing may follow.
async fn assert_nothing_written(scene: &Scene, again: impl AsRef<[u8]>) -> Answer {
    scene.drained().await;
    let (digest, writes) = (scene.sandbox().digest(), scene.sandbox().counters().writes());
    let answer = scene.send(&[again]).await.remove(0);
    scene.drained().await;
    assert_eq!((scene.sandbox().digest(), scene.sandbox().counters().writes()), (digest, writes));
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_1_and_2_resends_exact_restamped_and_re_encoded() {
    let scene = Scene::start().await;
    let patient = pid("R-1", "M\u{fc}ller^J\u{f6}rg||19600504|M");
    let build = |id: &str, sent: &str| {
        stamped("A01^ADT_A01", id, sent, "20240301101500", &[&patient, &pv1("RV-1", "3W", "", "")])
    };
    let first = build("R1", "20240301101501");
    let answer = scene.send(&[&first]).await.remove(0);
    assert_eq!(answer.code(), "AA");

    let exact = assert_nothing_written(&scene, &first).await;
    assert_eq!(exact.bytes, answer.bytes, "row 1: the stored answer, byte for byte");
    let latin = build("R3", "20240301101501").replacen("|2.5.1", "|2.5.1||||||8859/1", 1);
    let latin: Vec<u8> = latin.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
    let own = build("R4", "20240301101501").replacen("^~\\&", "!~\\&", 1).replace('^', "!");
    let own = own.replace("\\R\\", "~");
    for (id, again) in [
        ("R2", build("R2", "20240309235959").into_bytes()),
        ("R3", latin),
        ("R4", own.into_bytes()),
        ("R5", build("R5", "20240301101501").replace('\r', "\n").into_bytes()),
        (
            "R6",
            build("R6", "20240301101501").replace('\r', "||\r\n").replacen("MSH|^~\\&||", "MSH|^~\\&|", 1).into_bytes(),
        ),
        ("R7", [b"\xef\xbb\xbf", build("R7", "20240301101501").as_bytes()].concat()),
    ] {
        let answer = assert_nothing_written(&scene, &again).await;
        assert_eq!((answer.code(), answer.control_id()), ("AA".into(), id.into()), "{}", answer.text());
        assert_eq!(scene.verdicts(id).await.last(), Some(&Verdict::SkippedResend), "{id}");
    }
    let verdicts = scene.verdicts("R1").await;
    assert_eq!(verdicts[..2], [Verdict::Applied, Verdict::SkippedExact]);
    assert_eq!(verdicts[2..], [Verdict::SkippedResend; 6], "one message, all its receipts");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_3_msh_7_is_the_only_clock() {
    let settings = Settings {
        sections: "[sender.stamps]\nsending_application = \"STAMPS\"\nrestamps = true\n".into(),
        ..Settings::default()
    };
    let scene = Scene::with(settings, Profile::default()).await;
    let build =
        |application: &str, id: &str, sent: &str| {
            stamped("A31^ADT_A05", id, sent, "", &[&pid(&format!("S-{application}"), "Drei^Dora||19500101|F")])
                .replacen("|WARD|", &format!("|{application}|"), 1)
        };
    scene.accept(&[build("WARD", "S1", "20240301101500"), build("WARD", "S2", "20240301111500")]).await;
    let trace = scene.trace("S2").await;
    assert_eq!(trace.receipts[0].verdict, Verdict::Applied);
    assert_eq!(trace.receipts[0].alerts, ["RESTAMPED_CONTENT"]);
    scene.accept(&[build("STAMPS", "S3", "20240301101500"), build("STAMPS", "S4", "20240301111500")]).await;
    assert_eq!(scene.verdicts("S4").await, [Verdict::Applied, Verdict::SkippedResend]);
    scene.drained().await;
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_4_to_7_reuse_correction_late_and_new() {
    let scene = Scene::start().await;
    let of = |mrn: &str, id: &str, clock: &str, family: &str| {
        message(
            "A08^ADT_A01",
            id,
            clock,
            &[&pid(mrn, &format!("{family}^Vera||19600504|F")), &pv1(&format!("V{mrn}"), "3W", "", "")],
        )
    };
    let family = |mrn: &str| {
        let patient = scene.resource("Patient", mrn);
        patient.get("name").and_then(|n| n.items().first()?.get("family")?.as_str().map(str::to_owned))
    };
    // Row 7, then row 4: one MSH-10 for another patient's event.
    scene.accept(&[of("Q-1", "Q1", "20240301100000", "Sieben"), of("Q-2", "Q1", "20240301100000", "Vier")]).await;
    scene.drained().await;
    let trace = scene.trace("Q1").await;
    assert_eq!(trace.receipts.iter().map(|r| r.verdict).collect::<Vec<_>>(), [Verdict::Applied, Verdict::Applied]);
    assert_eq!(trace.receipts[1].alerts, ["CONTROL_ID_REUSE"]);
    assert_eq!((family("Q-1").as_deref(), family("Q-2").as_deref()), (Some("Sieben"), Some("Vier")));
    // Row 5: the same event of the same visit with other content.
    scene
        .accept(&[of("Q-1", "Q2", "20240301100000", "Siebener").replacen("20240301100000", "20240301100500", 1)])
        .await;
    scene.drained().await;
    let corrected = scene.trace("Q2").await;
    assert_eq!(corrected.receipts[0].verdict, Verdict::AppliedCorrection);
    assert!(corrected.messages[0].corrects.is_some());
    assert_eq!(family("Q-1").as_deref(), Some("Siebener"), "the correction was sent later");
    // Row 6: older than what is known.
    scene.accept(&[of("Q-1", "Q3", "20240301090000", "Sechs")]).await;
    scene.drained().await;
    assert_eq!(scene.verdicts("Q3").await, [Verdict::AppliedLate]);
    assert_eq!(family("Q-1").as_deref(), Some("Siebener"), "a late message changes nothing that newer ones said");
    let statuses: Vec<Status> = scene.trace("Q3").await.messages.iter().map(|m| m.status).collect();
    assert_eq!(statuses, [Status::Applied]);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_11_refused_bytes_are_refused_again_until_they_may_be_taken() {
    let scene = Scene::start().await;
    let message = spoilt("X1", |m| m.replacen("|P|", "|X|", 1));
    let first = scene.send(&[&message]).await.remove(0);
    let again = scene.send(&[&message]).await.remove(0);
    assert_eq!((first.code().as_str(), &first.bytes), ("AR", &again.bytes));
    assert!(scene.resources("Patient").is_empty());
    let settings = Settings { sections: "[receive]\nprocessing_ids = [\"P\", \"X\"]\n".into(), ..Settings::default() };
    let scene = scene.restart(&settings).await;
    scene.accept(&[&message]).await;
    scene.drained().await;
    assert_eq!(scene.verdicts("X1").await, [Verdict::Rejected, Verdict::SkippedExact, Verdict::Applied]);
    scene.resource("Patient", "M-X1");
    scene.stop().await;
}
