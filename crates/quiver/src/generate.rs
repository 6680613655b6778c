//! Documents that are made of the code: of the grammars, the router's and that of this
//! program's arguments (`docs/guide/cli.md`, the manual page); of the nodes' errors
//! (`docs/guide/errors.md`).

use crate::daemon::grammar;
use clap_mangen::Man;
use router::inspect;
use std::io::{self, Write};

/// Stands at the top of the guide.
const NOTE: &str =
    "Made of the grammar by 'quiver generate cli-guide > docs/guide/cli.md'; changes belong into the commands.";

const ERRORS_NOTE: &str =
    "Made of the nodes by 'quiver generate errors-guide > docs/guide/errors.md'; changes belong above their edges.";

#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Document {
    /// The guide to all commands (Markdown).
    CliGuide,
    /// What each error means (Markdown).
    ErrorsGuide,
    /// The same for programs (JSON).
    ErrorsJson,
    /// The manual page quiver(1).
    Man,
}

/// Prints a document.
///
/// # Errors
/// When it cannot be written.
pub fn run(document: Document, arguments: &clap::Command) -> Result<(), String> {
    let text = match document {
        Document::CliGuide => grammar().guide(NOTE).into_bytes(),
        Document::ErrorsGuide => inspect::errors_guide(ERRORS_NOTE).map_err(|error| error.to_string())?.into_bytes(),
        Document::ErrorsJson => {
            let meanings = inspect::meanings().map_err(|error| error.to_string())?;
            let mut text = serde_json::to_vec_pretty(&meanings).map_err(|error| error.to_string())?;
            text.push(b'\n');
            text
        }
        Document::Man => manual(arguments).map_err(|error| error.to_string())?,
    };
    crate::say(&text)
}

/// The manual page: what clap tells of the program, the options of each action, and the
/// router's commands.
fn manual(arguments: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let whole = Man::new(arguments.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    for action in arguments.get_subcommands().filter(|action| !action.is_hide_set()) {
        let name = format!("quiver {}", action.get_name());
        let of_action = Man::new(action.clone().bin_name(&name));
        let mut part = Vec::new();
        of_action.render_description_section(&mut part)?;
        of_action.render_synopsis_section(&mut part)?;
        of_action.render_options_section(&mut part)?;
        // Its sections are parts of one of ours, and the page has begun.
        let part = String::from_utf8_lossy(&part).replace(".SH ", ".SS ");
        let begins_page = |line: &&str| line.starts_with(".ie ") || line.starts_with(".el ");
        let part: Vec<&str> = part.lines().filter(|line| !begins_page(line)).collect();
        write!(page, ".SH \"{}\"\n{}\n", name.to_uppercase(), part.join("\n"))?;
    }
    page.extend(grammar().manual().bytes());
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_committed_guide_is_that_of_the_grammar() {
        let committed = include_str!("../../../docs/guide/cli.md");
        assert!(
            committed == grammar().guide(NOTE),
            "docs/guide/cli.md is old: make it by 'target/debug/quiver generate cli-guide > docs/guide/cli.md'"
        );
    }

    #[test]
    fn the_committed_page_of_errors_is_that_of_the_nodes() {
        let committed = include_str!("../../../docs/guide/errors.md");
        assert!(
            committed == inspect::errors_guide(ERRORS_NOTE).unwrap(),
            "docs/guide/errors.md is old: make it by 'target/debug/quiver generate errors-guide > docs/guide/errors.md'"
        );
    }

    #[test]
    fn every_example_is_a_line_of_its_command() {
        grammar().check_examples().unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn the_manual_has_options_and_commands() {
        let page = String::from_utf8(manual(&crate::Arguments::command()).unwrap()).unwrap();
        for part in
            [".TH quiver 1", "\\-\\-keep\\-going", ".SH \"QUIVER CLI\"", ".SH COMMANDS", "\\fBshow terminal\\fR"]
        {
            assert!(page.contains(part), "no {part}:\n{page}");
        }
        assert!(!page.contains("quiver generate"));
    }

    /// Commands in the documents: what is typed at a prompt, and what the page for Linux users puts beside Linux's
    /// commands. Each with its page and the line that follows it.
    fn commands_in_documents() -> Vec<(String, String, String)> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guide = std::fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
        let pages = guide.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
        let mut found = Vec::new();
        for path in pages.chain([root.join("README.md")]) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            for (line, next) in text.lines().zip(text.lines().skip(1)) {
                let typed =
                    ["quiver# ", "# quiver cli ", "# vppctl "].iter().find_map(|prompt| line.strip_prefix(prompt));
                let command =
                    |line: &str| (name.clone(), line.split('#').next().unwrap().trim().to_owned(), next.to_owned());
                found.extend(typed.map(command));
                if name == "coming-from-linux.md" {
                    let ours = line.split(" | ").nth(1).into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
                    let commands = ours.filter(|code| !code.starts_with("unix {"));
                    found.extend(commands.map(command));
                }
            }
        }
        found
    }

    #[test]
    fn every_command_in_the_documents_is_one() {
        let grammar = grammar();
        let commands = commands_in_documents();
        assert!(commands.len() > 100, "{} commands are too few: were the prompts changed?", commands.len());
        let faults: Vec<String> = commands
            .iter()
            // Options of the client, and half a line with '?' behind it.
            .filter(|(_, line, _)| !line.starts_with('-') && !line.ends_with('?'))
            .filter_map(|(page, line, next)| {
                let error = grammar.parse(line).err()?.to_string();
                // A page may show a mistake: the error follows.
                (error.lines().next() != Some(next)).then(|| format!("{page}: {line}: {error}"))
            })
            .collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
