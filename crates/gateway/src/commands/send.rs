//! `sluice send`: plays files into an MLLP listener.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mllp::Client;

use super::Failure;
use crate::message_file;

/// Arguments of `send`.
#[derive(Debug, clap::Args)]
pub(super) struct Send {
    /// Files or folders with messages: one message a file, many one after another, or MLLP frames
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Where the listener is
    #[arg(long, default_value = "127.0.0.1:2575", value_name = "HOST:PORT")]
    to: String,
    /// Connections used side by side
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Messages sent before the first answer is awaited, per connection
    #[arg(long, default_value_t = 1)]
    window: usize,
    /// Send everything so many times
    #[arg(long, default_value_t = 1)]
    times: usize,
    /// Print each answer
    #[arg(long)]
    answers: bool,
}

impl Send {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let mut messages = Vec::new();
        for path in &self.paths {
            read(path, &mut messages).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        }
        let once = messages.clone();
        for _ in 1..self.times {
            messages.extend(once.iter().cloned());
        }
        let total = messages.len();
        let answers = play(&self.to, messages, self.connections.max(1), self.window.max(1)).await?;
        if self.answers {
            for answer in &answers {
                println!("{}", String::from_utf8_lossy(answer).trim_end().replace('\r', "\n"));
                println!();
            }
        }
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        for answer in &answers {
            *codes.entry(code(answer)).or_default() += 1;
        }
        println!("{total} sent, {} answered", answers.len());
        for (code, count) in &codes {
            println!("{code:>4} {count}");
        }
        Ok(if answers.len() == total { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Reads messages from a file, or from every file of a folder in the order of their names.
fn read(path: &Path, messages: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    if path.is_dir() {
        let mut entries = std::fs::read_dir(path)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
        entries.sort();
        return entries.iter().try_for_each(|entry| read(entry, messages));
    }
    messages.extend(message_file::split(&std::fs::read(path)?));
    Ok(())
}

/// Sends messages over several connections, dealt out in turn; gives every answer.
pub(super) async fn play(
    to: &str,
    messages: Vec<Vec<u8>>,
    connections: usize,
    window: usize,
) -> Result<Vec<Vec<u8>>, Failure> {
    let mut hands: Vec<Vec<Vec<u8>>> = vec![Vec::new(); connections];
    for (i, message) in messages.into_iter().enumerate() {
        hands[i % connections].push(message);
    }
    let mut players = tokio::task::JoinSet::new();
    for hand in hands.into_iter().filter(|hand| !hand.is_empty()) {
        let to = to.to_owned();
        players.spawn(async move {
            let mut client = Client::connect(&to).await.map_err(|e| format!("cannot connect to {to}: {e}"))?;
            let mut answers = Vec::with_capacity(hand.len());
            client
                .send_all(&hand, window, |_, answer| answers.push(answer.to_vec()))
                .await
                .map_err(|e| crate::telemetry::chain(&e))?;
            Ok::<_, String>(answers)
        });
    }
    let mut all = Vec::new();
    while let Some(played) = players.join_next().await {
        all.extend(played??);
    }
    Ok(all)
}

/// MSA-1 of an answer.
pub(super) fn code(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let acknowledged = text.split('\r').find(|segment| segment.starts_with("MSA"));
    acknowledged.and_then(|msa| msa.get(4..6)).unwrap_or("?").to_owned()
}
