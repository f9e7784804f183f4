//! `sluice retry`: lists what is parked and sets it going again.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use store::{Disposition, ParkedFilter, ParkedMessage, Store};

use super::{ConfigFile, Failure};
use crate::judge::{self, Judge};
use crate::{clock, rules};

/// Rows read at a time: a backlog of any length never fills the memory.
const PAGE: u32 = 500;

/// Arguments of `retry`.
#[derive(Debug, clap::Args)]
pub(super) struct Retry {
    #[command(flatten)]
    config: ConfigFile,
    /// Only what is parked under this code
    #[arg(long)]
    code: Option<String>,
    /// List only, change nothing
    #[arg(long)]
    list: bool,
}

impl Retry {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let config = self.config.load()?;
        let store = super::existing_store(&config).await?;
        if self.list {
            self.show(&store).await?;
        } else {
            let plan = Arc::new(rules::load(&config.mapping.directory)?);
            let judge = Judge::new(plan, &config, store.identity_key().await?)?;
            let again = self.rejudge(&store, &judge).await?;
            let filter = ParkedFilter { code: self.code.clone(), ..ParkedFilter::default() };
            let retried = store.retry_parked(&filter, SystemTime::now()).await?;
            println!(
                "{} messages go through under today's rules, {again_parked} stay parked; {} subjects are free again",
                again.freed,
                retried.subjects,
                again_parked = again.parked,
            );
        }
        store.close().await;
        Ok(ExitCode::SUCCESS)
    }

    async fn show(&self, store: &dyn Store) -> Result<(), Failure> {
        let (mut messages, mut subjects) = (0_u64, 0_u64);
        let mut after = None;
        loop {
            let page = store.parked_messages(self.code.as_deref(), after, PAGE).await?;
            for row in &page {
                messages += 1;
                println!(
                    "{}  {:<22} {:<18} {}  MSH-10 {}",
                    clock::rfc3339(row.received_at),
                    row.code,
                    row.message_type,
                    row.message_id,
                    row.message_control_id
                );
            }
            match page.last() {
                Some(last) => after = Some(last.cursor),
                None => break,
            }
        }
        let mut after: Option<String> = None;
        loop {
            let page = store.parked_subjects(after.as_deref(), PAGE).await?;
            for row in page.iter().filter(|row| self.code.as_deref().is_none_or(|code| code == row.code)) {
                subjects += 1;
                println!("subject {}  {:<22} {}", row.subject, row.code, row.summary);
            }
            match page.last() {
                Some(last) => after = Some(last.subject.clone()),
                None => break,
            }
        }
        println!("{messages} messages and {subjects} subjects parked");
        Ok(())
    }

    /// Judges parked messages by today's rules and configuration.
    async fn rejudge(&self, store: &dyn Store, judge: &Judge) -> Result<Again, Failure> {
        let mut again = Again { freed: 0, parked: 0 };
        let mut after = None;
        loop {
            let page = store.parked_messages(self.code.as_deref(), after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(again) };
            after = Some(last.cursor);
            for row in &page {
                if one(store, judge, row).await? { again.freed += 1 } else { again.parked += 1 }
            }
        }
    }
}

struct Again {
    freed: u64,
    parked: u64,
}

async fn one(store: &dyn Store, judge: &Judge, row: &ParkedMessage) -> Result<bool, Failure> {
    let Some(raw) = store.raw(&row.message_id).await? else { return Ok(false) };
    let judged = {
        let Ok(decoded) = judge.decode(&raw, &row.sender) else { return Ok(false) };
        let Ok(message) = Judge::parse(&decoded.text) else { return Ok(false) };
        judge.judge(&message, &row.sender)
    };
    if judged.content.and_then(judge::check).is_err() {
        return Ok(false);
    }
    store.reidentify(&row.message_id, judged.identified, Disposition::Apply, SystemTime::now()).await?;
    Ok(true)
}
