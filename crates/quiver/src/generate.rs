//! Documents generated from code: from the grammars of the router and of this program's arguments (`docs/guide/cli.md`,
//! the manual page), and from the nodes' errors (`docs/guide/errors.md`).

use crate::daemon::grammar;
use capabilities::CAPABILITIES;
use clap_mangen::Man;
use features::inspect;
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
        Document::ErrorsGuide => {
            inspect::errors_guide(CAPABILITIES, ERRORS_NOTE).map_err(|error| error.to_string())?.into_bytes()
        }
        Document::ErrorsJson => {
            let meanings = inspect::meanings(CAPABILITIES).map_err(|error| error.to_string())?;
            let mut text = serde_json::to_vec_pretty(&meanings).map_err(|error| error.to_string())?;
            text.push(b'\n');
            text
        }
        Document::Man => manual(arguments).map_err(|error| error.to_string())?,
    };
    crate::say(&text)
}

/// The manual page: what clap writes about the program, the options of each action, and the router's commands.
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
        // Its sections become parts of one of ours, and the page has begun already.
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
    use clap::{CommandFactory, Parser};

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
            committed == inspect::errors_guide(CAPABILITIES, ERRORS_NOTE).unwrap(),
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

    /// Pages of the guide and README.md: name and text.
    fn pages() -> Vec<(String, String)> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guide = std::fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
        let pages = guide.filter(|path| path.extension().is_some_and(|kind| kind == "md"));
        let name = |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let read = |path: std::path::PathBuf| (name(&path), std::fs::read_to_string(&path).unwrap());
        pages
            .chain([root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("bench/README.md")])
            .map(read)
            .collect()
    }

    /// Code blocks of a page: the word after the fence, and the text.
    fn blocks(text: &str) -> Vec<(&str, String)> {
        let mut found: Vec<(&str, String)> = Vec::new();
        let mut is_inside = false;
        for line in text.lines() {
            match line.trim_start().strip_prefix("```") {
                Some(kind) => {
                    is_inside = !is_inside;
                    found.extend(is_inside.then(|| (kind, String::new())));
                }
                None if is_inside => {
                    let block = &mut found.last_mut().unwrap().1;
                    block.push_str(line);
                    block.push('\n');
                }
                None => {}
            }
        }
        assert!(!is_inside, "a fence is open");
        found
    }

    /// Commands in the documents: what is typed at a prompt, and what the page for Linux users lists beside Linux's
    /// commands. Each with its page and the line that follows it.
    fn commands_at_prompts() -> Vec<(String, String, String)> {
        let mut found = Vec::new();
        for (name, text) in pages() {
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
        let commands = commands_at_prompts();
        assert!(commands.len() > 100, "{} commands are too few: were the prompts changed?", commands.len());
        let faults: Vec<String> = commands
            .iter()
            // Leave out options of the client, and half a line followed by '?'.
            .filter(|(_, line, _)| !line.starts_with('-') && !line.ends_with('?'))
            .filter_map(|(page, line, next)| {
                let error = grammar.parse(line).err()?.to_string();
                // A page may show a mistake, if its error message follows.
                (error.lines().next() != Some(next)).then(|| format!("{page}: {line}: {error}"))
            })
            .collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// A block of commands without a prompt is marked with 'quiver' behind its fence.
    #[test]
    fn every_block_of_commands_is_one() {
        let grammar = grammar();
        let mut count = 0;
        let mut faults = Vec::new();
        // The page of commands is generated from the grammar, whose examples have a test of their own.
        for (page, text) in pages().iter().filter(|(page, _)| page != "cli.md") {
            for (kind, block) in blocks(text) {
                let lines = command::complete_lines(&block);
                if kind == "quiver" {
                    let lines = lines.unwrap_or_else(|error| panic!("{page}: {block}{error}"));
                    count += lines.len();
                    let errors = lines.iter().filter_map(|line| Some((&line.text, grammar.parse(&line.text).err()?)));
                    faults.extend(errors.map(|(line, error)| format!("{page}: {line}: {error}")));
                } else if kind.is_empty() && lines.is_ok_and(|lines| grammar.parse(&lines[0].text).is_ok()) {
                    faults.push(format!("{page}: mark as ```quiver:\n{block}"));
                }
            }
        }
        assert!(count > 40, "{count} commands are too few");
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// Calls of the program that are typed into a shell. What follows them (pipes, files, comments) is left out.
    fn calls() -> Vec<(String, Vec<String>)> {
        let mut found = Vec::new();
        for (page, text) in pages() {
            for (kind, block) in blocks(&text).into_iter().filter(|(kind, _)| ["sh", "console"].contains(kind)) {
                for line in block.replace("\\\n", " ").lines() {
                    let typed = match kind {
                        "sh" => Some(line),
                        _ => line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")),
                    };
                    let Some(call) = typed.filter(|call| call.starts_with("quiver ")) else { continue };
                    let mut words = vec![String::new()];
                    let mut quote = None;
                    for letter in call.chars() {
                        match (letter, quote) {
                            ('\'' | '"', None) => quote = Some(letter),
                            (_, Some(open)) if open == letter => quote = None,
                            (' ', None) => words.push(String::new()),
                            _ => words.last_mut().unwrap().push(letter),
                        }
                    }
                    let is_of_shell = |word: &String| word.starts_with(['|', '<', '>', '&', '#', ';']);
                    words.truncate(words.iter().position(is_of_shell).unwrap_or(words.len()));
                    words.retain(|word| !word.is_empty());
                    found.push((page.clone(), words));
                }
            }
        }
        found
    }

    #[test]
    fn every_call_of_the_program_in_the_documents_is_one() {
        let calls = calls();
        assert!(calls.len() > 20, "{} calls are too few", calls.len());
        let faults: Vec<String> = calls
            .into_iter()
            .filter_map(|(page, words)| {
                let error =
                    crate::Arguments::try_parse_from(crate::loadtest::spelled(words.iter().map(Into::into))).err()?;
                Some(format!("{page}: {}: {error}", words.join(" ")))
            })
            .collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
