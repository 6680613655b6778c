//! Options that a command does not have, of which it is known what they mean: those of VPP's. Who types one is told why it
//! is refused, or it is passed over where nothing needs to be done for it.
//!
//! They are looked at when a line is refused, so that they change neither what other lines mean nor completion and help.

use crate::line::Word;

/// What becomes of a line that has such an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// The line is read without it and without so many words behind it; why nothing is lost by that.
    Nothing { values: usize, why: String },
    /// The line is refused; why, or what to use instead.
    Refused(String),
}

/// An option, and of which command it is one.
#[derive(Debug)]
pub(crate) struct KnownOption {
    command: String,
    words: Vec<String>,
    pub becomes: Becomes,
}

impl KnownOption {
    pub fn new(command: &str, words: &str, becomes: Becomes) -> Self {
        Self { command: command.to_string(), words: words.split(' ').map(str::to_string).collect(), becomes }
    }

    /// How many words of a line the option takes that is refused at word `at`, if this is it.
    pub fn length(&self, command: &str, words: &[Word<'_>], at: usize) -> Option<usize> {
        let rest = words.get(at..)?;
        let is_it = self.command == command
            && rest.len() >= self.words.len()
            && self.words.iter().zip(rest).all(|(own, word)| own == word.text);
        let values = match self.becomes {
            Becomes::Nothing { values, .. } => values,
            Becomes::Refused(_) => 0,
        };
        let length = self.words.len() + values;
        (is_it && length <= rest.len()).then_some(length)
    }

    /// The option as it is written.
    pub fn name(&self) -> String {
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
        // A value that is missing, and words that nobody knows, are told as ever.
        assert!(refused("make x depth").contains("unknown input `depth'"), "{}", refused("make x depth"));
        assert!(refused("make x colour").contains("unknown input `colour'"));
    }
}
