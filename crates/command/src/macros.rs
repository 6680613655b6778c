//! Macros of command lines, as VPP has them: `define NAME VALUE`, then `$(NAME)` in later lines.
//!
//! A value is read when it is defined, macros in it included; so one that names itself is no endless story, and a line
//! grows once, up to the bound of every line.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest command in bytes, joined lines included.
pub const MAXIMUM_LINE: usize = 64 * 1024;

/// Most macros, and longest name.
const MOST: usize = 1024;
const LONGEST_NAME: usize = 64;
/// Most bytes of all values together.
const LONGEST_VALUES: usize = 1 << 20;

/// Names with what they stand for. Clones share them: all sessions of a router do, as in VPP.
#[derive(Clone, Debug, Default)]
pub struct Macros(Arc<Mutex<BTreeMap<String, String>>>);

impl Macros {
    fn table(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // A table is never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a name stand for a text.
    ///
    /// # Errors
    /// What is wrong with the name, or that there is no room.
    pub fn define(&self, name: &str, value: &str) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(plain) {
            return Err(format!(
                "bad macro name '{}': expected letters, digits, '_', '-' and '.', at most {LONGEST_NAME}",
                name.chars().take(LONGEST_NAME).collect::<String>()
            ));
        }
        let mut table = self.table();
        let others: usize = table.iter().filter(|(known, _)| *known != name).map(|(_, value)| value.len()).sum();
        if (table.len() == MOST && !table.contains_key(name)) || others + value.len() > LONGEST_VALUES {
            return Err(format!("no room: at most {MOST} macros and {LONGEST_VALUES} bytes ('undefine' makes some)"));
        }
        table.insert(name.to_string(), value.to_string());
        Ok(())
    }

    /// # Errors
    /// When there is none of that name.
    pub fn undefine(&self, name: &str) -> Result<(), String> {
        self.table().remove(name).map(drop).ok_or_else(|| no_macro(name))
    }

    /// All of them by name.
    pub fn list(&self) -> Vec<(String, String)> {
        self.table().iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// A line with what its macros stand for. `$` without a parenthesis is a character like any other.
    ///
    /// # Errors
    /// Names a macro that is not there, or that the line grew too long.
    pub fn expand(&self, line: String) -> Result<String, String> {
        if !line.contains("$(") {
            return Ok(line);
        }
        let table = self.table();
        let mut expanded = String::new();
        let mut rest = line.as_str();
        while let Some((before, behind)) = rest.split_once("$(") {
            let (name, after) = behind.split_once(')').ok_or("'$(' is never closed")?;
            let value = table.get(name).ok_or_else(|| no_macro(name))?;
            if expanded.len() + before.len() + value.len() + after.len() > MAXIMUM_LINE {
                return Err(format!("command longer than {MAXIMUM_LINE} bytes with what its macros stand for"));
            }
            expanded += before;
            expanded += value;
            rest = after;
        }
        Ok(expanded + rest)
    }
}

fn no_macro(name: &str) -> String {
    let name: String = name.chars().take(LONGEST_NAME).collect();
    format!("no macro '{name}' ('define {name} VALUE' makes it, 'show macro' lists them)")
}

/// Whether a line is about the macros of the text that it stands in.
pub(crate) fn is_of_text(line: &str) -> bool {
    matches!(line.split_whitespace().next(), Some("define" | "undefine"))
}

/// Does what a line of a text says of its macros, if it does.
pub(crate) fn of_text(macros: &Macros, line: &str) -> Result<(), String> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let (name, value) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    match word {
        "define" if value.trim().is_empty() => Err("define: expected 'define NAME VALUE'".into()),
        "define" => macros.define(name, value.trim()),
        "undefine" => macros.undefine(name),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_are_put_in_where_they_stand() {
        let macros = Macros::default();
        macros.define("A", "1").unwrap();
        macros.define("B.b-2", "x y").unwrap();
        let expand = |line: &str| macros.expand(line.into());
        assert_eq!(expand("$(A)$(A) $A $ ($(B.b-2))").unwrap(), "11 $A $ (x y)");
        assert_eq!(expand("$(A").unwrap_err(), "'$(' is never closed");
        assert_eq!(expand("$(C)").unwrap_err(), "no macro 'C' ('define C VALUE' makes it, 'show macro' lists them)");
        macros.clone().undefine("A").unwrap();
        assert!(expand("$(A)").is_err(), "clones share them");
        assert!(macros.undefine("A").is_err());
    }

    #[test]
    fn what_macros_can_grow_to_is_bounded() {
        let macros = Macros::default();
        macros.define("A", &"x".repeat(40_000)).unwrap();
        assert!(macros.expand("$(A)".into()).is_ok());
        assert!(macros.expand("$(A)$(A)".into()).unwrap_err().starts_with("command longer than 65536 bytes"));
        for name in ["", "a b", "a)", &"n".repeat(65)] {
            assert!(macros.define(name, "1").unwrap_err().starts_with("bad macro name"), "{name}");
        }
        let all = (0..2000).filter(|n| macros.define(&format!("n{n}"), "1").is_ok()).count();
        assert_eq!(all, MOST - 1);
        macros.define("A", "2").unwrap();
        assert!(macros.define("n0", &"x".repeat(LONGEST_VALUES)).unwrap_err().starts_with("no room"));
    }
}
