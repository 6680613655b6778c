//! `quiver loadtest report`: kept sessions as one page.

use super::output::Overwrite;
use clap::Args;
use loadtest::page;
use loadtest::session::Session;

#[derive(Args)]
pub struct Options {
    /// What 'matrix' and 'ramp --session' kept; several are laid over each other.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Where the page goes; - is standard output.
    #[arg(short, long, default_value = "report.html", value_name = "FILE")]
    output: String,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Does it.
///
/// # Errors
/// What is wrong with a file, in words.
pub fn run(options: &Options) -> Result<(), String> {
    let sessions = options.files.iter().map(|file| Session::read(file)).collect::<Result<Vec<_>, _>>()?;
    let html = page::page(&sessions);
    match options.output.as_str() {
        "-" => super::super::say(html.as_bytes()),
        file => {
            options.overwrite.write(file, html)?;
            super::super::say(format!("The page: {file}\n").as_bytes())
        }
    }
}
