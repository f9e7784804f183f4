//! Maps the messages of a file and prints contributions, issues and ledger:
//! `cargo run -p mapping --example map -- mappings/v1 message.hl7`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mapping::{Context, Plan, RuleFile, Sender, Zone};

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let [root, file] = arguments.as_slice() else {
        eprintln!("usage: map DIR FILE.hl7");
        return ExitCode::from(2);
    };
    match run(root, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, file: &Path) -> Result<(), String> {
    let mut files = Vec::new();
    read(root, root, &mut files).map_err(|error| format!("{}: {error}", root.display()))?;
    let files: Vec<RuleFile> = files.iter().map(|(path, text)| RuleFile { path, text }).collect();
    let plan = Plan::compile(&files)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let mut sender = Sender::new("example", Zone::named("America/New_York").map_err(|error| error.to_string())?);
    sender.patient_id_system = Some("urn:example:patient".to_owned());
    sender.visit_id_system = Some("urn:example:visit".to_owned());
    let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\r").replace('\n', "\r");
    let context = Context { sender: &sender, identity_key: b"example", message_id: "example", message_header: false };
    for text in messages(&text) {
        let message = hl7::Message::parse(&text).map_err(|error| error.to_string())?;
        match plan.map(&message, &context) {
            Ok(mapped) => show(&plan, &message, &mapped),
            Err(error) => println!("{}: {error}", error.code()),
        }
    }
    Ok(())
}

/// Messages of a file: each begins with MSH; blank lines between say nothing.
fn messages(text: &str) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for line in text.split('\r').filter(|line| !line.trim().is_empty()) {
        match messages.last_mut() {
            Some(last) if !line.starts_with("MSH") => {
                last.push_str(line);
                last.push('\r');
            }
            _ => messages.push(format!("{line}\r")),
        }
    }
    messages
}

fn show(plan: &Plan, message: &hl7::Message<'_>, mapped: &mapping::Mapped) {
    for contribution in &mapped.contributions {
        println!(
            "{} {} ({:?})",
            contribution.resource.resource_type,
            contribution.resource.full_url(),
            contribution.scope
        );
        for (path, register) in &contribution.registers {
            let value = register.value.as_ref().map_or("null".to_owned(), ToString::to_string);
            println!("  {path} {:?} {value}", register.strength);
        }
    }
    for issue in &mapped.issues {
        println!("{} {} {}", issue.code, issue.location, issue.path);
    }
    print!("{}", mapped.ledger.explain(message, plan));
}

fn read(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml" || extension == "json") {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.push((name, std::fs::read_to_string(&path)?));
        }
    }
    Ok(())
}
