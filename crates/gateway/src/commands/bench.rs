//! `sluice bench`: what this machine does, part by part, in one run.
//!
//! `accept` is the whole of receive over sockets into SQLite with `synchronous=FULL`. Its honest limit is
//! 1/(1/echo + 1/commit + 1/map): the same cores frame, map and commit. All four are measured here, one after another.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use chart::keys;
use mllp::{Listener, ListenerConfig};
use store::sqlite::{SqliteOptions, SqliteStore};
use store::{Disposition, Store};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{ConfigFile, Failure, send};
use crate::http::Readiness;
use crate::judge::{self, Judge};
use crate::metrics::Metrics;
use crate::receive::Receiver;
use crate::rules;

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub(super) struct Bench {
    #[command(flatten)]
    config: ConfigFile,
    /// Messages per measurement
    #[arg(long, default_value_t = 20_000)]
    messages: usize,
    /// Connections, each waiting for its answer before it sends again
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Folder for the databases, on the disk to be measured; without it a temporary one
    #[arg(long)]
    folder: Option<std::path::PathBuf>,
}

/// A typical admission of about 1.4 KB and ten segments, each number about another patient and visit.
pub(super) fn admission(n: usize) -> String {
    let minute = n % 1440;
    let time = format!("202601{:02}{:02}{:02}{:02}", 1 + n / 1440 % 28, minute / 60, minute % 60, n % 60);
    format!(
        "MSH|^~\\&|ADT1|STELLA|SLUICE|HUB|{time}||ADT^A01^ADT_A01|B{n:08}|P|2.5.1|||AL|NE|GBR|UNICODE UTF-8\r\
         EVN|A01|{time}||ADT_EVENT|4711^Adeyemi^Tola^^^Dr^^^STELLA\r\
         PID|1||{n:08}^^^STELLA^MR~{national}^^^NATID^NI||Okafor^Ada^Beatrice^^Ms^^L~Eze^Ada^^^^^M|Eze|19840312|F|||\
         14 Quay Street^Flat 3^Port Stella^^PS1 1AA^GBR^H||+44 20 7946 0102^PRN^PH~^NET^Internet^ada@example.org|\
         +44 20 7946 0103^WPN^PH|en|M|1013|A{n:07}^^^STELLA^AN|||||||||||||N\r\
         PD1|||Quay Practice^L^77^^^STELLA|4712^Brandt^Ilse^^^Dr^^^STELLA\r\
         NK1|1|Okafor^Sam^^^^^L|SPO^Spouse^HL70063|14 Quay Street^^Port Stella^^PS1 1AA^GBR|+44 20 7946 0104^PRN^PH||EP\r\
         PV1|1|I|CARD^101^2^STELLA^^^B1^3|E|||4711^Adeyemi^Tola^^^Dr^^^STELLA|4713^Costa^Rui^^^Dr^^^STELLA||MED||||7|||\
         4711^Adeyemi^Tola^^^Dr^^^STELLA|IP|V{n:08}^^^STELLA^VN|||||||||||||||||||||||||{time}\r\
         PV2|||^Chest pain|||||||||||||||||||||||||||||||||N\r\
         OBX|1|NM|29463-7^Body weight^LN||71.50|kg^kilogram^UCUM|||||F|||{time}\r\
         AL1|1|DA|7980^Penicillin^RXNORM|SV|Rash|20190401\r\
         DG1|1||I21.9^Acute myocardial infarction^I10||{time}|A\r\
         IN1|1|GOLD^Gold plan|INS01|Harbour Mutual|1 Pier Road^^Port Stella^^PS2 2BB^GBR||||||||20250101||||Okafor^Ada|SEL|19840312\r",
        national = 9_400_000_000_usize + n,
    )
}

impl Bench {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let config = self.config.load()?;
        let plan = Arc::new(rules::load(&config.mapping.directory)?);
        let judge = Arc::new(Judge::new(plan, &config, [7; 32])?);
        let messages: Vec<String> = (0..self.messages).map(admission).collect();
        println!("{} admissions of {} bytes, {} connections", messages.len(), messages[0].len(), self.connections);

        let parse = rate(messages.len() * 4, || {
            for message in messages.iter().cycle().take(messages.len() * 4) {
                let decoded = hl7::decode(message.as_bytes(), hl7::Charset::UTF_8);
                std::hint::black_box(decoded.ok().map(|d| hl7::Message::parse(&d.text).map(|m| m.segment_count())));
            }
        });
        show("parse (one core)", parse);
        let map = rate(messages.len(), || {
            for message in &messages {
                std::hint::black_box(map_and_check(&judge, message.as_bytes()));
            }
        });
        show("parse + map + check (one core)", map);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let map_all = self.map_on(cores, &judge, &messages)?;
        show(&format!("parse + map + check ({cores} cores)"), map_all);
        let took = mllp::bench::echo(self.connections, messages.len(), messages[0].as_bytes()).await?;
        let echo = per_second(messages.len(), took);
        show("echo over sockets, no store", echo);
        let folder = tempfolder(self.folder.as_deref())?;
        let commit = self.commit(&folder.0.join("commit.db"), &judge, &messages).await?;
        show("durable commits, no sockets, no mapping", commit);
        let accept = self.accept(&folder.0.join("accept.db"), judge, messages).await?;
        show("durable accepts over sockets", accept);
        let limit = 1.0 / (1.0 / echo + 1.0 / commit + 1.0 / map_all);
        show("limit 1/(1/echo + 1/commit + 1/map)", limit);
        println!("{:<44} {:>12.2}", "accept / limit", accept / limit);
        if let Some(kilobytes) = resident_kilobytes() {
            println!("{:<44} {:>9} MB", "resident memory of this process", kilobytes / 1024);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The same messages mapped on several cores at once.
    fn map_on(&self, cores: usize, judge: &Judge, messages: &[String]) -> Result<f64, Failure> {
        let started = Instant::now();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..cores)
                .map(|core| {
                    scope.spawn(move || {
                        for message in messages.iter().skip(core).step_by(cores) {
                            std::hint::black_box(map_and_check(judge, message.as_bytes()));
                        }
                    })
                })
                .collect();
            workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a mapping thread panicked"))
        })?;
        Ok(per_second(self.messages, started.elapsed()))
    }

    /// Accepts already judged arrivals, as many at once as there are connections.
    async fn commit(&self, path: &std::path::Path, judge: &Judge, messages: &[String]) -> Result<f64, Failure> {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path, SqliteOptions::default()).await?);
        let mut hands: Vec<Vec<store::Arrival>> = vec![Vec::new(); self.connections];
        for (i, message) in messages.iter().enumerate() {
            hands[i % self.connections].push(arrival(judge, message, i)?);
        }
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for hand in hands {
            let store = Arc::clone(&store);
            tasks.spawn(async move {
                for arrival in hand {
                    store.accept(arrival).await?;
                }
                Ok::<_, store::AcceptError>(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        let rate = per_second(messages.len(), started.elapsed());
        store.close().await;
        Ok(rate)
    }

    /// The whole of receive: sockets, judgement, durable commit, answer.
    async fn accept(&self, path: &std::path::Path, judge: Arc<Judge>, messages: Vec<String>) -> Result<f64, Failure> {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path, SqliteOptions::default()).await?);
        let receiver = Receiver {
            judge,
            store: Arc::clone(&store),
            metrics: Arc::new(Metrics::new()?),
            readiness: Arc::new(Readiness::default()),
            sender: "default".into(),
        };
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), ListenerConfig::default()).await?;
        let address = listener.local_addr().to_string();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(listener.serve(Arc::new(receiver), stop.clone()));
        let count = messages.len();
        let frames = messages.into_iter().map(String::into_bytes).collect();
        let started = Instant::now();
        let answers = send::play(&address, frames, self.connections, 1).await?;
        let took = started.elapsed();
        stop.cancel();
        serving.await?;
        store.close().await;
        let accepted = answers.iter().filter(|a| send::code(a) == "AA").count();
        if accepted != count {
            return Err(format!("{accepted} of {count} messages were accepted").into());
        }
        Ok(per_second(count, took))
    }
}

/// Judges a message and checks every resource it makes against R4, as receive does.
fn map_and_check(judge: &Judge, bytes: &[u8]) -> Option<usize> {
    let decoded = judge.decode(bytes, "default").ok()?;
    let message = Judge::parse(&decoded.text).ok()?;
    let mapped = judge.judge(&message, "default").content.and_then(judge::check).ok()?;
    Some(mapped.issues.len())
}

fn arrival(judge: &Judge, message: &str, n: usize) -> Result<store::Arrival, Failure> {
    let text = message;
    let message = hl7::Message::parse(text)?;
    let judged = judge.judge(&message, "default");
    Ok(store::Arrival {
        receipt_id: uuid::Uuid::now_v7().to_string(),
        received_at: SystemTime::now(),
        sender: judged.sender,
        peer: "127.0.0.1:1".into(),
        traceparent: format!("00-{n:032x}-{n:016x}-01"),
        raw: text.as_bytes().to_vec(),
        raw_hash: keys::raw_hash(text.as_bytes()),
        identified: Some(judged.identified),
        disposition: Disposition::Apply,
        mapping_version: judge.mapping_version(),
        ack: vec![b'A'; 160],
    })
}

fn rate(count: usize, work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    per_second(count, started.elapsed())
}

#[expect(clippy::cast_precision_loss, reason = "a count of messages is far below 2^52")]
fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

fn show(what: &str, rate: f64) {
    println!("{what:<44} {rate:>10.0}/s");
}

/// `VmRSS` of this process, where the system tells.
fn resident_kilobytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A folder that is removed at the end.
pub(super) struct TemporaryFolder(pub(super) std::path::PathBuf);

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes a folder for one run below `parent` or the system's place for temporary files.
pub(super) fn tempfolder(parent: Option<&std::path::Path>) -> std::io::Result<TemporaryFolder> {
    let parent = parent.map_or_else(std::env::temp_dir, std::path::Path::to_path_buf);
    let folder = parent.join(format!("sluice-{}", uuid::Uuid::now_v7().simple()));
    std::fs::create_dir_all(&folder)?;
    Ok(TemporaryFolder(folder))
}
