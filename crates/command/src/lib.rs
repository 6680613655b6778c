//! The command language: one declarative grammar per command.
//!
//! A command is written once, as a syntax string and a handler. Parsing, error messages,
//! completion, `?` help and the printed guide all derive from that string, so that they
//! cannot drift apart:
//!
//! ```
//! use quiver_command::{Args, Command, CommandSet, Done, reply};
//!
//! struct Router { up: bool }
//!
//! let mut commands = CommandSet::new();
//! commands.add(Command::new(
//!     "set interface state <interface:interface> {up|down:state}",
//!     "Set an interface up or down.",
//!     |router: &mut Router, args: &Args| {
//!         router.up = args.text("state")? == "up";
//!         reply(Done)
//!     },
//! ));
//!
//! let mut router = Router { up: false };
//! commands.execute(&mut router, "set int state e0 up").unwrap();
//! assert!(router.up);
//! let refusal = commands.execute(&mut router, "set int state e0 sideways").err().unwrap();
//! assert_eq!(
//!     refusal.to_string(),
//!     "set interface state: unknown input 'sideways' (word 5)\nexpected one of: down, up",
//! );
//! ```
//!
//! # The syntax string
//!
//! The leading plain words are the command's *path*. When typed, each word of the path
//! may be shortened while it stays unambiguous, and an exact word wins over a longer one
//! that starts with it, as in VPP: `sh int`, `set int state e0 up`. After the path come
//! parameters:
//!
//! | written | meaning |
//! |---|---|
//! | `keyword` | a literal word; `args.flag("keyword")` says whether it was there |
//! | `'{'` | a literal word that holds punctuation |
//! | `<name:type>`, `<name:u32 1..4096>` | a typed value; ranges include both ends, either may be left out |
//! | `[ ... ]` | optional |
//! | `{a \| b <x:word> : name}` | one alternative; `args.text("name")` is its first word; `: name` is optional |
//! | `( ... : name)+`, `( ... : name)*` | repeated; `args.groups("name")` has one `Args` per repetition |
//! | `{{ a <x:word> \| [b] \| (c <y:word> : name)* }}` | options in any order; `[ ]`: optional, `( )*`: repeated |
//!
//! Types: `word`, `interface`, `node`, `stream`, `class` (names of things that the program can list, so that
//! completion offers them; the handler resolves them), `ip4`, `ip6`, `ip` (either), `prefix4`, `prefix6`, `prefix`,
//! `mac`, `u32`, `u64`, `f64`, `rate` (`1e6`, `10k`, `1.5M`), `size` (`2k`, `64m`, `1G`), `hex`, `path`, `socket` and
//! `netns` (which name something in the file system: [`CommandSet::guard_paths`]), `rest` (all remaining text),
//! `block` (a balanced `{ ... }` as raw text).
//!
//! # How a typed word is read
//!
//! Where several elements may come next, an exactly spelled keyword wins; else a value that accepts the word; else the
//! one keyword that the word abbreviates. So a keyword may be shortened only where no value could be meant.
//!
//! There are no quotes and no escapes: words end at white space, and each brace is a word. [`Lines`], the reader before
//! the grammar, handles continued lines, comments and macros.
//!
//! # What else a command says
//!
//! [`Command::configures`] marks a command that states configuration, so that it can be saved and loaded.
//! [`Command::example`] shows a command in use; a test checks the examples against the grammar. [`Command::of_session`]
//! makes a command that the session itself carries out. [`Command::also`] adds another spelling, and
//! [`CommandSet::refuse`] says why there is no such command. A command belongs to the [`CommandSet::section`] that was
//! open when it was added.
//!
//! The set [parses](CommandSet::parse) a line without running it, [completes](CommandSet::complete)
//! an unfinished one, gives [help](CommandSet::help) on it, and prints itself as a
//! [guide](CommandSet::guide) and a [manual](CommandSet::manual). A [`Reply`] writes itself piece by piece, on the
//! client's thread and not on the router's.

#![forbid(unsafe_code)]

mod args;
mod command;
mod error;
pub mod files;
mod guide;
mod harmless;
mod help;
mod line;
mod macros;
mod matcher;
pub mod nearest;
mod options;
mod reply;
mod set;
mod spelling;
mod syntax;
pub mod table;
mod value;

pub use args::Args;
pub use command::Command;
pub use error::{CommandError, fail};
pub use files::{FileError, Files};
pub use harmless::{harmless, harmless_line};
pub use help::{Candidate, Completion};
pub use line::{CommandLine, LineError, Lines, MAXIMUM_DEPTH, MAXIMUM_WORDS, complete_lines, joined_lines};
pub use macros::MAXIMUM_LINE;
pub use macros::Macros;
pub use options::Becomes;
pub use reply::{Done, Format, Reply, Text, reply, still_wanted};
pub use set::{CommandSet, Parsed, SESSION_SECTION, Section};
pub use value::PathKind;
