//! A real `sluice serve` process: started, killed, started again on the same store.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::fhir_server::free_port;
use crate::metrics;

/// A running gateway and where it listens.
pub struct GatewayProcess {
    /// MLLP address.
    pub mllp: String,
    /// Address of `/metrics`.
    pub http: String,
    config: PathBuf,
    log: PathBuf,
    child: Child,
}

impl GatewayProcess {
    /// Starts `sluice serve` with a store in `folder`; `settings` is TOML put after the basic settings.
    pub async fn start(folder: &Path, fhir: &str, settings: &str) -> Self {
        let (mllp, http) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.1:{}", free_port()));
        let config = folder.join("sluice.toml");
        let text = format!(
            "[store]\npath = {:?}\n[http]\naddress = \"{http}\"\n[fhir]\nbase_url = \"{fhir}\"\n\
             [[listener]]\nname = \"adt\"\naddress = \"{mllp}\"\n{settings}",
            folder.join("sluice.db").display().to_string(),
        );
        std::fs::write(&config, text).expect("the configuration is written");
        let log = folder.join("sluice.log");
        let child = spawn(&config, &log);
        let gateway = Self { mllp, http, config, log, child };
        gateway.ready().await;
        gateway
    }

    /// kill -9: no chance to finish anything.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM: finishes what is in flight; the exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        self.child.wait().ok().and_then(|status| status.code())
    }

    /// Starts it again on the same store and ports.
    pub async fn restart(&mut self) {
        self.child = spawn(&self.config, &self.log);
        self.ready().await;
    }

    async fn ready(&self) {
        let client = crate::http::client();
        for _ in 0..300 {
            let answer = client.get(format!("http://{}/readyz", self.http)).send().await;
            if answer.is_ok_and(|a| a.status().is_success()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        panic!("the gateway did not get ready; its log:\n{log}");
    }

    /// Waits until nothing is pending.
    pub async fn drained(&self) {
        let client = crate::http::client();
        let mut last = f64::NAN;
        let mut still = 0;
        loop {
            let pending = metrics::value(&client, &self.http, "sluice_messages", "pending").await;
            if pending == 0.0 {
                return;
            }
            still = if pending == last { still + 1 } else { 0 };
            last = pending;
            assert!(still < 600, "{pending} messages stay pending; log: {}", self.log.display());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(config: &Path, log: &Path) -> Child {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("the log file opens");
    Command::new(assert_cmd::cargo::cargo_bin("sluice"))
        .arg("serve")
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the log file"))
        .stderr(log)
        .spawn()
        .expect("the sluice binary is built: run the tests of the whole workspace")
}
