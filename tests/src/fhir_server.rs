//! A FHIR server for a test: our sandbox, or a real one started by a launcher script.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A started server; stopped when dropped.
pub struct FhirServer {
    /// Its base URL.
    pub base_url: String,
    child: Child,
}

impl FhirServer {
    /// Starts `launcher kind port data` and waits until it answers.
    pub async fn start(launcher: &Path, kind: &str, port: u16, data: PathBuf) -> Self {
        let child = Command::new(launcher)
            .arg(kind)
            .arg(port.to_string())
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("{} {kind}: {e}", launcher.display()));
        let path = if kind == "sekmet" { "/fhir" } else { "" };
        let server = Self { base_url: format!("http://127.0.0.1:{port}{path}"), child };
        let client = crate::http::client();
        for _ in 0..600 {
            let answer = client.get(format!("{}/metadata", server.base_url)).send().await;
            if answer.is_ok_and(|a| a.status().is_success()) {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{kind} did not answer on port {port}");
    }
}

impl Drop for FhirServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A TCP port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound address").port()
}
