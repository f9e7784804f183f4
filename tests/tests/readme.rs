//! The README says what is so: its commands run, its tables of codes are whole, its settings exist.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gateway::config;
use gateway::outcome::Outcome;
use mapping::IssueCode;
use sandbox::{Profile, Sandbox};

const README: &str = include_str!("../../README.md");
const RUNBOOK: &str = include_str!("../../deploy/RUNBOOK.md");
const METRICS: &str = include_str!("../../crates/gateway/src/metrics.rs");
/// What is run by running these tests, and by whoever puts the binary on the path.
const RUN_OTHERWISE: [&str; 1] = ["cargo test --workspace"];
/// Longest that a command of the README may take here.
const PATIENCE: Duration = Duration::from_mins(2);

/// The fenced blocks of a language, in order.
fn blocks(language: &str) -> Vec<Vec<&'static str>> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    let mut fence = None;
    for line in README.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(opened), None) => {
                fence = Some(opened);
                if opened == language {
                    blocks.push(Vec::new());
                }
            }
            (Some(_), Some(_)) => fence = None,
            (None, Some(opened)) if opened == language => blocks.last_mut().expect("an open block").push(line),
            (None, _) => {}
        }
    }
    blocks
}

/// Their lines.
fn fenced(language: &str) -> Vec<&'static str> {
    blocks(language).concat()
}

/// Rows of the tables below a heading, up to the next heading: the text of each cell.
fn rows(text: &'static str, heading: &str) -> Vec<Vec<&'static str>> {
    let mut below = text.lines().skip_while(|line| *line != heading);
    assert_eq!(below.next(), Some(heading));
    below
        .take_while(|line| !line.starts_with('#'))
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// The codes of a table's first column, each once.
fn codes(heading: &str) -> BTreeSet<String> {
    let rows = rows(README, heading);
    let codes: BTreeSet<String> = rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(codes.len(), rows.len(), "a code stands twice below {heading}");
    codes
}

fn alerts() -> [&'static str; 4] {
    [store::CONTROL_ID_REUSE, store::RESTAMPED_CONTENT, chart::AMBIGUOUS_ORDER, chart::PERIOD_REVERSED]
}

/// Words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn tables_list_every_code_and_no_other() {
    let all = |codes: &[&str]| codes.iter().map(|code| (*code).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(codes("### Outcomes"), all(&Outcome::ALL.map(Outcome::code)));
    let issues: Vec<&str> = IssueCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes("### Mapping issues"), all(&issues));
    assert_eq!(codes("### Alerts"), all(&alerts()));
}

#[test]
fn answers_are_those_that_are_given() {
    for row in rows(README, "### Outcomes") {
        let outcome = Outcome::ALL.into_iter().find(|o| o.code() == row[0].trim_matches('`')).unwrap();
        let (code, condition) = outcome.answer();
        let late = outcome == Outcome::RawExpired || outcome.code().starts_with("FHIR_");
        let answer = if late { "–".to_owned() } else { format!("{} {condition}", code.as_str()) };
        assert_eq!(row[1], answer, "{}", outcome.code());
    }
}

#[test]
fn the_runbook_has_every_code_that_wakes_somebody() {
    let named: BTreeSet<&str> = quoted(RUNBOOK).collect();
    for code in Outcome::ALL.map(Outcome::code).into_iter().chain(alerts()) {
        assert!(named.contains(code), "{code} is not in the runbook");
    }
}

#[test]
fn the_table_of_metrics_is_whole() {
    let made: BTreeSet<&str> = METRICS.split('"').filter(|text| text.starts_with("sluice_")).collect();
    let told: BTreeSet<&str> = rows(README, "## Metrics")
        .into_iter()
        .map(|row| row[0].trim_matches('`'))
        .map(|name| name.split('{').next().unwrap_or(name))
        .collect();
    assert_eq!(made, told);
    for name in quoted(RUNBOOK).filter(|name| name.starts_with("sluice_")) {
        let name = name.split('{').next().unwrap_or(name);
        assert!(made.contains(name), "the runbook names {name}");
    }
}

/// The names of all keys of a TOML document, at any depth.
fn keys(value: &toml::Value, into: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, inner) in table {
                into.insert(key.clone());
                keys(inner, into);
            }
        }
        toml::Value::Array(items) => items.iter().for_each(|item| keys(item, into)),
        _ => {}
    }
}

#[test]
fn settings_named_exist() {
    let faults = config::parse(&fenced("toml").join("\n")).err();
    assert_eq!(faults, None, "the README's configuration");
    let mut known = BTreeSet::new();
    keys(&config::DEFAULT.parse::<toml::Table>().map(toml::Value::Table).unwrap(), &mut known);
    // Words that look like keys and are something else: verdicts, fields of the log, counters, HTTP.
    let counters: Vec<String> = mllp::Counters::default().list().iter().map(|(name, _)| (*name).to_owned()).collect();
    let other = ["receipt_id", "message_id", "skipped_exact", "skipped_resend", "applied_correction", "applied_late"];
    for text in [README, RUNBOOK] {
        for name in quoted(text) {
            let last = name.split([' ', '=']).next().unwrap_or(name);
            let last = last.rsplit('.').next().unwrap_or(last);
            let looks_like_a_key = last.contains('_') && last.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            if looks_like_a_key
                && !last.starts_with("sluice_")
                && !other.contains(&last)
                && !counters.iter().any(|c| c == last)
            {
                assert!(known.contains(last), "`{name}` is no setting");
            }
        }
    }
}

#[test]
fn files_named_exist() {
    let root = root();
    for (from, text) in [(root.clone(), README), (root.join("deploy"), RUNBOOK)] {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or(target);
            assert!(file.is_empty() || from.join(file).exists(), "{target} does not exist");
        }
    }
}

/// Every link into a text leads to a heading.
#[test]
fn headings_linked_exist() {
    let anchors = |text: &str| -> BTreeSet<String> {
        let headings = text.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|line| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-").replace('`', ""))
            .collect()
    };
    let known = BTreeMap::from([("", anchors(RUNBOOK)), ("../README.md", anchors(README))]);
    for target in RUNBOOK.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        if let Some((file, anchor)) = target.split_once('#') {
            assert!(known[file].contains(anchor), "{target} leads nowhere");
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port")
}

/// A place where the README's commands run: its addresses, its configuration file and store stand for others here.
struct Desk {
    folder: tempfile::TempDir,
    mllp: String,
    http: String,
    fhir: String,
}

impl Desk {
    fn new(fhir: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let desk =
            Self { folder, mllp: free_address().to_string(), http: free_address().to_string(), fhir: fhir.to_owned() };
        let text = format!("{}\n[http]\naddress = \"127.0.0.1:8090\"\n", fenced("toml").join("\n"));
        let store = desk.folder.path().join("sluice.db").display().to_string();
        let text = desk.here(&text).replace("path = \"sluice.db\"", &format!("path = {store:?}"));
        std::fs::write(desk.config(), text).expect("the configuration is written");
        desk
    }

    fn config(&self) -> String {
        self.folder.path().join("sluice.toml").display().to_string()
    }

    fn here(&self, text: &str) -> String {
        text.replace("127.0.0.1:2575", &self.mllp)
            .replace("127.0.0.1:8090", &self.http)
            .replace("http://127.0.0.1:8080/fhir", &self.fhir)
    }

    /// A line of the README as arguments of `sluice`; `cargo run --release -- X` is `sluice X`.
    fn arguments(&self, line: &str) -> Option<Vec<String>> {
        let rest = line.strip_prefix("cargo run --release -- ").or_else(|| line.strip_prefix("sluice "))?;
        let config = self.config();
        let word = |word: &str| if word == "sluice.toml" { config.clone() } else { self.here(word) };
        Some(rest.split_whitespace().map(word).collect())
    }

    /// Runs to the end; fails the test when that takes too long or the command says that it failed.
    fn run(line: &str, arguments: &[String]) -> String {
        let output = finished(line, spawn(arguments));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let faults = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {}\n{text}\n{faults}", output.status);
        text
    }

    fn up(&self) -> bool {
        get(&format!("http://{}/readyz", self.http)).is_some()
    }
}

fn spawn(arguments: &[String]) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("sluice"))
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the sluice binary is built: run the tests of the whole workspace")
}

/// Waits for a process on a thread of its own, so that full pipes never stop it.
fn finished(line: &str, child: Child) -> Output {
    let id = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(PATIENCE) else {
        stop(id, "KILL");
        panic!("{line} does not end");
    };
    output.expect("the process ends")
}

fn stop(id: u32, signal: &str) {
    let status = Command::new("kill").arg(format!("-{signal}")).arg(id.to_string()).status();
    assert!(status.is_ok_and(|s| s.success()), "no signal sent");
}

/// The text of a page that answers 200.
fn get(url: &str) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let page = async {
        let address = url.strip_prefix("http://")?.split('/').next()?.to_owned();
        let path = url.strip_prefix("http://")?.strip_prefix(&address)?;
        let mut stream = tokio::net::TcpStream::connect(&address).await.ok()?;
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.ok()?;
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut text).await.ok()?;
        text.contains(" 200 OK").then_some(text)
    };
    runtime.block_on(page)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A sandbox on a runtime that lives as long as it does.
fn sandbox() -> (tokio::runtime::Runtime, sandbox::Running) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let running = runtime.block_on(Sandbox::start(SocketAddr::from(([127, 0, 0, 1], 0)), Profile::default())).unwrap();
    (runtime, running)
}

/// The README's commands in the README's order, as a reader would type them.
#[test]
fn every_command_runs() {
    let (_runtime, sandbox) = sandbox();
    let desk = Desk::new(&sandbox.base_url);
    let mut serving = None;
    let mut said = BTreeMap::new();
    for line in fenced("sh") {
        if let Some(url) = line.strip_prefix("curl ") {
            let page = get(&desk.here(url)).unwrap_or_else(|| panic!("{line}: no answer"));
            said.insert(line, page);
            continue;
        }
        let Some(mut arguments) = desk.arguments(line) else {
            assert!(RUN_OTHERWISE.contains(&line), "no test runs `{line}`");
            continue;
        };
        match arguments[0].as_str() {
            "serve" => {
                serving = Some(spawn(&arguments));
                wait_until(line, || desk.up());
                continue;
            }
            "demo" => arguments.extend(["--exit", "--pace-ms", "0"].map(str::to_owned)),
            "trace" => wait_until("delivered", || {
                let metrics = get(&format!("http://{}/metrics", desk.http)).unwrap_or_default();
                metrics.contains("sluice_messages{state=\"applied\"} 1")
            }),
            _ => {}
        }
        said.insert(line, Desk::run(line, &arguments));
    }
    let serving = serving.expect("the README serves");
    stop(serving.id(), "TERM");
    let ended = finished("serve", serving);
    assert!(ended.status.success(), "serve did not stop cleanly: {}", ended.status);
    let text = |start: &str| -> String {
        said.iter().filter(|(line, _)| line.starts_with(start)).map(|(_, text)| text.as_str()).collect()
    };
    assert!(text("cargo run").contains(": the same"), "{}", text("cargo run"));
    assert!(text("sluice doctor").contains("all is well"));
    assert!(text("sluice send").contains("MSA|AA|MSG00001"));
    assert!(text("sluice trace").contains("Encounter/"));
    assert!(text("sluice retry --list").contains("0 messages and 0 subjects parked"));
    assert!(text("curl").contains("sluice_receipts_total{verdict=\"applied\"} 1"));
}

/// A line of output without the lines of rule files that it names: these change with every edit of a rule.
fn without_line_numbers(line: &str) -> String {
    let mut parts = line.trim_end().split(".toml:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + ".toml" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Checks that each line that a block shows is said; `…` in a line stands for more.
fn shown(beginning: &str, said: &str) {
    let block = blocks("text").into_iter().find(|b| b[0].starts_with(beginning)).expect("the block");
    let said: Vec<String> = said.lines().map(without_line_numbers).collect();
    // Digests depend on ids that the server gives.
    for line in block.into_iter().filter(|line| !line.trim_start().starts_with("state of the server")) {
        let line = without_line_numbers(line);
        let is_said = match line.strip_suffix('…') {
            Some(start) => said.iter().any(|s| s.starts_with(start)),
            None => said.contains(&line),
        };
        assert!(is_said, "`{line}` is not said: {said:#?}");
    }
}

/// What the README shows of the demo and of `map --explain` is what they say.
#[test]
fn output_is_as_shown() {
    let desk = Desk::new("http://127.0.0.1:9/fhir");
    shown("What was sent", &Desk::run("demo", &["demo", "--exit", "--pace-ms", "20"].map(str::to_owned)));
    let explain = fenced("sh").into_iter().find(|line| line.contains("--explain")).expect("the command");
    shown("MSH-1.1.1", &Desk::run(explain, &desk.arguments(explain).expect("arguments")));
}
