//! Tells the program which commit it is made of, for `show version`. A source tree without its repository, such as
//! an unpacked archive, or a machine without git: no commit is named.

use std::path::Path;
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo:rustc-env=QUIVER_COMMIT={}", commit(&root).unwrap_or_default());
    // Only what exists may be named: Cargo would build anew each time.
    for watched in [".git/HEAD", ".git/logs/HEAD", "Cargo.toml", "crates"] {
        let path = root.join(watched);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
}

/// The commit of this tree in 12 digits, with a word behind it when files of it were changed since.
fn commit(root: &Path) -> Option<String> {
    // A repository further up is another project's.
    root.join(".git").exists().then_some(())?;
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let changed = !git(root, &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if changed { format!("{commit} with changes") } else { commit })
}

fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").arg("-C").arg(root).args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
