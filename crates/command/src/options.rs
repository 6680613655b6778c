//! Options of VPP's that a command here does not have. Each is either refused with a reason, or passed over because
//! nothing needs to be done for it.
//!
//! They are looked up only after a line was refused. So they change neither the meaning of other lines nor completion
//! and help.

use crate::line::Word;
use crate::matcher::quoted;
use crate::{CommandError, fail};

/// What is done with a line that has such an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// The line is read without the option and the numbers behind it, `values` of them. `why` says why that is enough.
    Nothing { values: usize, why: String },
    /// The line is refused; why, or what to use instead.
    Refused(String),
}

/// An option and its command.
#[derive(Debug)]
pub(crate) struct KnownOption {
    command: String,
    words: Vec<String>,
    becomes: Becomes,
}

impl KnownOption {
    pub fn new(command: &str, words: &str, becomes: Becomes) -> Self {
        Self { command: command.to_string(), words: words.split(' ').map(str::to_string).collect(), becomes }
    }

    /// Whether a line of this command has the option at word `at`.
    pub fn is_at(&self, command: &str, words: &[Word<'_>], at: usize) -> bool {
        let rest = words.get(at..).unwrap_or_default();
        self.command == command
            && rest.len() >= self.words.len()
            && self.words.iter().zip(rest).all(|(own, word)| own == word.text)
    }

    /// How many words the option and its values take from word `at` on.
    ///
    /// # Errors
    /// When it is refused, or a value is missing or no number; the message says which.
    pub fn length(&self, words: &[Word<'_>], at: usize) -> Result<usize, CommandError> {
        let values = match &self.becomes {
            Becomes::Nothing { values, .. } => *values,
            Becomes::Refused(why) => return fail(format!("{}: {why}", self.name())),
        };
        let first = at + self.words.len();
        for at in first..first + values {
            let number = words.get(at).map(|word| word.text);
            if !number
                .is_some_and(|number| number.parse::<f64>().is_ok_and(|number| number.is_finite() && number >= 0.0))
            {
                let instead = number.map_or_else(String::new, |number| format!(", not '{}'", quoted(number)));
                return fail(format!("{}: expected a number{instead} (word {})", self.name(), at + 1));
            }
        }
        Ok(self.words.len() + values)
    }

    /// What to tell of it when it is passed over.
    pub fn said(&self) -> String {
        match &self.becomes {
            Becomes::Nothing { why, .. } | Becomes::Refused(why) => format!("{} has no effect: {why}", self.name()),
        }
    }

    /// The option as it is written.
    fn name(&self) -> String {
        self.words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, CommandSet, reply};

    fn set() -> CommandSet<()> {
        let mut set = CommandSet::new();
        set.add(Command::new("make <name:word> [size <size:u32>]", "", |(): &mut (), _| reply(crate::Done)));
        set.option("make", "depth", Becomes::Nothing { values: 1, why: "it is flat".into() });
        set.option("make", "mode flat", Becomes::Nothing { values: 0, why: "it is flat".into() });
        set.option("make", "mode", Becomes::Refused("it is flat".into()));
        set
    }

    #[test]
    fn an_option_without_effect_is_passed_over_wherever_it_stands() {
        for line in ["make x depth 3", "make x size 7 depth 3", "make x depth 3 mode flat size 7", "mak x depth 3"] {
            let (set, said) = (set(), "depth has no effect: it is flat");
            let parsed = set.parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(parsed.args.text("name").unwrap(), "x", "{line}");
            assert_eq!(parsed.args.optional::<u32>("size").unwrap().is_some(), line.contains("size"), "{line}");
            assert_eq!(parsed.passed_over[0], said, "{line}");
        }
    }

    #[test]
    fn an_option_is_refused_with_its_reason() {
        let refused = |line: &str| set().parse(line).err().unwrap_or_else(|| panic!("{line}")).to_string();
        assert_eq!(refused("make x mode round"), "make: mode: it is flat");
        assert_eq!(refused("make x depth 3 mode round"), "make: mode: it is flat");
        assert!(refused("make x colour").contains("unknown input 'colour'"));
    }

    #[test]
    fn a_value_must_be_a_number() {
        let refused = |line: &str| set().parse(line).err().unwrap_or_else(|| panic!("{line}")).to_string();
        assert_eq!(refused("make x depth"), "make: depth: expected a number (word 4)");
        for value in ["banana", "-3", "inf", "nan", "size"] {
            let expected = format!("make: depth: expected a number, not '{value}' (word 4)");
            assert_eq!(refused(&format!("make x depth {value} size 7")), expected);
        }
    }
}
