//! `sluice trace`: from any correlation ID to everything it led to, and from a resource back.

use std::process::ExitCode;

use store::Store;

use super::{ConfigFile, Failure};
use crate::clock::rfc3339;

/// Arguments of `trace`.
#[derive(Debug, clap::Args)]
pub(super) struct Trace {
    /// Receipt id, message id, MSH-10, or a resource as Type/id
    id: String,
    #[command(flatten)]
    config: ConfigFile,
}

impl Trace {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let config = self.config.load()?;
        let store = super::existing_store(&config).await?;
        let is_resource = self.id.contains('/') || self.id.starts_with("urn:uuid:");
        let trace = if is_resource { store.trace_resource(&self.id).await? } else { store.trace(&self.id).await? };
        store.close().await;
        if trace.receipts.is_empty() && trace.messages.is_empty() {
            println!("the store {} knows nothing by {}", config.store.path, self.id);
            return Ok(ExitCode::FAILURE);
        }
        print!("{}", text(&trace));
        Ok(ExitCode::SUCCESS)
    }
}

fn text(trace: &store::Trace) -> String {
    let mut lines = Vec::new();
    for message in &trace.messages {
        let code = message.code.as_deref().map(|c| format!(" {c}")).unwrap_or_default();
        lines.push(format!(
            "message  {}  {}  {}{code}",
            message.message_id,
            message.message_type,
            message.status.as_str()
        ));
        lines.push(format!(
            "         MSH-10 {}  sender {}  rules {}",
            message.message_control_id, message.sender, message.mapping_version
        ));
        if let Some(first) = &message.corrects {
            lines.push(format!("         corrects {first}"));
        }
    }
    for receipt in &trace.receipts {
        let code = receipt.code.as_deref().map(|c| format!(" {c}")).unwrap_or_default();
        let alerts = receipt.alerts.join(" ");
        lines.push(format!(
            "receipt  {}  {}  {}{code}  from {} {alerts}",
            receipt.receipt_id,
            rfc3339(receipt.received_at),
            receipt.verdict,
            receipt.peer
        ));
    }
    let mut resources: Vec<_> = trace.resources.iter().collect();
    resources.sort_by_key(|r| (&r.resource_type, &r.full_url));
    for resource in resources {
        let server_id = resource.server_id.as_deref().unwrap_or("not written yet");
        lines.push(format!("resource {}  {server_id}  {}", resource.full_url, resource.etag.as_deref().unwrap_or("")));
    }
    for row in &trace.audit {
        lines.push(format!("audit    {:>6}  {}  {}  {}", row.seq, rfc3339(row.at), row.event, row.detail));
    }
    if trace.truncated {
        lines.push(format!("(only the first {} of each kind are shown)", store::TRACE_ROWS_MAX));
    }
    lines.iter().flat_map(|line| [line.trim_end(), "\n"]).collect()
}
