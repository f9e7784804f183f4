//! Compiles a rule directory and prints every fault: `cargo run -p mapping --example check -- mappings/v1`.

use std::path::{Path, PathBuf};

fn main() -> std::process::ExitCode {
    let Some(root) = std::env::args().nth(1).map(PathBuf::from) else {
        eprintln!("usage: check DIR");
        return std::process::ExitCode::from(2);
    };
    let mut files = Vec::new();
    if let Err(error) = read(&root, &root, &mut files) {
        eprintln!("{}: {error}", root.display());
        return std::process::ExitCode::from(2);
    }
    let files: Vec<mapping::RuleFile> = files.iter().map(|(path, text)| mapping::RuleFile { path, text }).collect();
    match mapping::Plan::compile(&files) {
        Ok(plan) => {
            println!(
                "{} files, {} rules, version {}, digest {}",
                files.len(),
                plan.rules().count(),
                plan.version(),
                plan.digest()
            );
            std::process::ExitCode::SUCCESS
        }
        Err(faults) => {
            for fault in &faults {
                println!("{fault}");
            }
            println!("{} faults", faults.len());
            std::process::ExitCode::FAILURE
        }
    }
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
