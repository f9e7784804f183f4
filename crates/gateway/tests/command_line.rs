//! The binary's command line by itself: what it says of itself, and that wrong calls are told so.
//!
//! That this file is an integration test of the package also makes `cargo test` build the binary, which the tests of
//! whole processes elsewhere in the workspace start.

use std::process::{Command, Output};

fn sluice(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).args(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_names_every_command() {
    let help = text(&sluice(&["--help"]).stdout);
    for command in ["serve", "demo", "send", "map", "trace", "retry", "check-mapping", "doctor", "bench"] {
        assert!(help.contains(&format!("\n  {command} ")), "{command} in\n{help}");
    }
}

#[test]
fn the_built_in_rules_have_no_fault() {
    let output = sluice(&["check-mapping"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("no fault"));
}

#[test]
fn a_faulty_configuration_is_refused_with_every_line() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "[store]\npth = \"x\"\n[deliver]\nworkers = 0\n").expect("the file is written");
    let output = sluice(&["serve", "--config", &file.path().display().to_string()]);
    let said = text(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("line 2: unknown key `store.pth`") && said.contains("line 4:"), "{said}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let output = sluice(&["map", "no-such-file.hl7"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("no-such-file.hl7"));
}
