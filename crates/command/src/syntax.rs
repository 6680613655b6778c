//! The syntax string: read into elements, shown to operators, compiled to a program.
//!
//! The program is that of a small nondeterministic automaton over words (as in a regular
//! expression engine that simulates all threads at once). It needs no backtracking, so a
//! hostile line costs at most words x instructions; and at every word the live threads
//! are exactly what could have come, which is what error messages and help need.

use crate::value::Kind;

/// Most options in one any-order group: one bit each.
const MAXIMUM_OPTIONS: usize = 64;

#[derive(Debug)]
pub(crate) enum Element {
    Keyword(String),
    Value { name: String, kind: Kind },
    Optional(Vec<Element>),
    Choice { name: Option<String>, alternatives: Vec<Vec<Element>> },
    AnyOrder(Vec<AnyOrderOption>),
    Repeat(Repeat),
}

#[derive(Debug)]
pub(crate) struct Repeat {
    name: String,
    at_least_once: bool,
    body: Vec<Element>,
}

#[derive(Debug)]
pub(crate) enum AnyOrderOption {
    Required(Vec<Element>),
    AtMostOnce(Vec<Element>),
    Repeated(Repeat),
}

impl AnyOrderOption {
    fn body(&self) -> &[Element] {
        match self {
            Self::Required(body) | Self::AtMostOnce(body) => body,
            Self::Repeated(repeat) => &repeat.body,
        }
    }
}

/// A syntax string, read.
#[derive(Debug)]
pub(crate) struct Syntax {
    /// The path: leading plain words.
    pub path: Vec<String>,
    pub parameters: Vec<Element>,
}

impl Syntax {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { text, at: 0 };
        let mut elements = reader.sequence()?;
        if !reader.rest().is_empty() {
            return Err(format!("'{}' closes nothing", reader.rest()));
        }
        let path_length = elements
            .iter()
            .take_while(|element| matches!(element, Element::Keyword(word) if is_path_word(word)))
            .count();
        let parameters = elements.split_off(path_length);
        let path: Vec<String> = elements.iter().map(ToString::to_string).collect();
        if path.is_empty() {
            return Err("a command begins with a plain word".into());
        }
        Ok(Self { path, parameters })
    }
}

fn is_path_word(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// A cursor over the syntax string; recursive descent, one method per construct.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(format!("expected '{token}' at '{}'", self.rest())),
        }
    }

    /// The text up to `end`, which is consumed.
    fn until(&mut self, end: char) -> Result<&'a str, String> {
        let rest = self.rest();
        let length = rest.find(end).ok_or_else(|| format!("no '{end}' after '{rest}'"))?;
        self.at += length + end.len_utf8();
        Ok(&rest[..length])
    }

    fn word(&mut self) -> Result<String, String> {
        self.skip_space();
        let rest = self.rest();
        let length = rest.find(|c: char| c.is_whitespace() || "<>[](){}|:'".contains(c)).unwrap_or(rest.len());
        if length == 0 {
            return Err(format!("expected a word at '{rest}'"));
        }
        self.at += length;
        Ok(rest[..length].to_string())
    }

    fn sequence(&mut self) -> Result<Vec<Element>, String> {
        let mut elements = Vec::new();
        loop {
            self.skip_space();
            if self.rest().is_empty() || self.rest().starts_with(['|', ':', ']', ')', '}']) {
                return Ok(elements);
            }
            elements.push(self.element()?);
        }
    }

    fn element(&mut self) -> Result<Element, String> {
        if self.take("{{") {
            self.any_order()
        } else if self.take("{") {
            self.choice()
        } else if self.take("[") {
            let body = self.sequence()?;
            self.expect("]")?;
            Ok(Element::Optional(body))
        } else if self.take("(") {
            Ok(Element::Repeat(self.repeat()?))
        } else if self.take("<") {
            let value = self.until('>')?;
            let (name, kind) = value.split_once(':').ok_or_else(|| format!("value '<{value}>' has no type"))?;
            Ok(Element::Value { name: name.trim().to_string(), kind: Kind::parse(kind)? })
        } else if self.take("'") {
            Ok(Element::Keyword(self.until('\'')?.to_string()))
        } else {
            Ok(Element::Keyword(self.word()?))
        }
    }

    fn choice(&mut self) -> Result<Element, String> {
        let mut alternatives = vec![self.sequence()?];
        while self.take("|") {
            alternatives.push(self.sequence()?);
        }
        let name = match self.take(":") {
            true => Some(self.word()?),
            false => None,
        };
        self.expect("}")?;
        match alternatives.iter().any(Vec::is_empty) {
            true => Err("an alternative is empty; use [ ] for what may be left out".into()),
            false => Ok(Element::Choice { name, alternatives }),
        }
    }

    fn repeat(&mut self) -> Result<Repeat, String> {
        let body = self.sequence()?;
        self.expect(":").map_err(|error| format!("{error}: a repetition needs a name"))?;
        let name = self.word()?;
        self.expect(")")?;
        let at_least_once = self.take("+");
        if !at_least_once {
            self.expect("*")?;
        }
        Ok(Repeat { name, at_least_once, body })
    }

    fn any_order(&mut self) -> Result<Element, String> {
        let mut options = Vec::new();
        loop {
            let mut body = self.sequence()?;
            options.push(match (body.pop(), body.is_empty()) {
                (None, _) => return Err("an option is empty".into()),
                (Some(Element::Optional(inner)), true) => AnyOrderOption::AtMostOnce(inner),
                (Some(Element::Repeat(repeat)), true) => AnyOrderOption::Repeated(repeat),
                (Some(last), _) => {
                    body.push(last);
                    AnyOrderOption::Required(body)
                }
            });
            if !self.take("|") {
                break;
            }
        }
        self.expect("}}")?;
        match options.len() > MAXIMUM_OPTIONS {
            true => Err(format!("more than {MAXIMUM_OPTIONS} options")),
            false => Ok(Element::AnyOrder(options)),
        }
    }
}

impl std::fmt::Display for Element {
    /// As help shows it: types are left out, as in VPP.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Keyword(word) => f.write_str(word),
            Self::Value { name, kind } => f.write_str(&kind.placeholder(name)),
            Self::Optional(body) => write!(f, "[{}]", shown(body)),
            Self::Choice { alternatives, .. } => {
                let alternatives: Vec<String> = alternatives.iter().map(|a| shown(a)).collect();
                write!(f, "{{{}}}", alternatives.join("|"))
            }
            Self::Repeat(repeat) => write!(f, "{repeat}"),
            Self::AnyOrder(options) => {
                let options: Vec<String> = options
                    .iter()
                    .map(|option| match option {
                        AnyOrderOption::Required(body) => shown(body),
                        AnyOrderOption::AtMostOnce(body) => format!("[{}]", shown(body)),
                        AnyOrderOption::Repeated(repeat) => repeat.to_string(),
                    })
                    .collect();
                f.write_str(&options.join(" "))
            }
        }
    }
}

impl std::fmt::Display for Repeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at_least_once {
            true => write!(f, "{} ...", shown(&self.body)),
            false => write!(f, "[{} ...]", shown(&self.body)),
        }
    }
}

/// The values in elements, in the order in which they are shown.
pub(crate) fn values(elements: &[Element]) -> Vec<(&str, &Kind)> {
    let of = |element| match element {
        &Element::Keyword(_) => Vec::new(),
        Element::Value { name, kind } => vec![(name.as_str(), kind)],
        Element::Optional(body) => values(body),
        Element::Choice { alternatives, .. } => alternatives.iter().flat_map(|body| values(body)).collect(),
        Element::Repeat(repeat) => values(&repeat.body),
        Element::AnyOrder(options) => options.iter().flat_map(|option| values(option.body())).collect(),
    };
    elements.iter().flat_map(of).collect()
}

/// Elements as help shows them.
pub(crate) fn shown(elements: &[Element]) -> String {
    let parts: Vec<String> = elements.iter().map(ToString::to_string).collect();
    parts.join(" ")
}

/// One instruction of the automaton. Those that read words are `Keyword` and `Value`;
/// all others are followed at once. Except where they name targets, the next
/// instruction follows.
#[derive(Debug)]
pub(crate) enum Instruction {
    Keyword(String),
    Value {
        name: String,
        kind: Kind,
    },
    /// Goes on at each target, the first preferred.
    Split(Vec<usize>),
    Jump(usize),
    /// Notes which alternative was taken.
    Chosen {
        name: String,
        choice: String,
    },
    GroupStart(String),
    GroupEnd,
    /// Enters an any-order group: none of its options were used.
    OptionsEnter(usize),
    /// Chooses the next option of an any-order group, or leaves it.
    Options(Box<Options>),
    /// Marks an option of group `set` as used.
    OptionUsed {
        set: usize,
        option: usize,
    },
    Accept,
}

#[derive(Debug)]
pub(crate) struct Options {
    pub set: usize,
    /// Where each option begins.
    pub starts: Vec<usize>,
    /// Bits of the options without which the group cannot be left.
    pub required: u64,
    /// Bits of the options that may be used again.
    pub repeatable: u64,
    pub exit: usize,
}

/// A command's parameters as an automaton.
#[derive(Debug)]
pub(crate) struct Program {
    pub instructions: Vec<Instruction>,
    /// Number of any-order groups.
    pub sets: usize,
}

impl Program {
    pub fn compile(parameters: &[Element]) -> Self {
        let mut program = Self { instructions: Vec::new(), sets: 0 };
        program.sequence(parameters);
        program.push(Instruction::Accept);
        program
    }

    fn here(&self) -> usize {
        self.instructions.len()
    }

    fn push(&mut self, instruction: Instruction) -> usize {
        self.instructions.push(instruction);
        self.here() - 1
    }

    fn sequence(&mut self, elements: &[Element]) {
        for element in elements {
            self.element(element);
        }
    }

    fn element(&mut self, element: &Element) {
        match element {
            Element::Keyword(word) => {
                self.push(Instruction::Keyword(word.clone()));
            }
            Element::Value { name, kind } => {
                self.push(Instruction::Value { name: name.clone(), kind: kind.clone() });
            }
            Element::Optional(body) => {
                let split = self.push(Instruction::Split(Vec::new()));
                self.sequence(body);
                self.instructions[split] = Instruction::Split(vec![split + 1, self.here()]);
            }
            Element::Choice { name, alternatives } => self.choice(name.as_deref(), alternatives),
            Element::Repeat(repeat) => self.repeat(repeat),
            Element::AnyOrder(options) => self.any_order(options),
        }
    }

    fn choice(&mut self, name: Option<&str>, alternatives: &[Vec<Element>]) {
        let split = self.push(Instruction::Split(Vec::new()));
        let mut starts = Vec::new();
        let mut jumps = Vec::new();
        for alternative in alternatives {
            starts.push(self.here());
            if let Some(name) = name {
                self.push(Instruction::Chosen { name: name.to_string(), choice: choice_name(alternative) });
            }
            self.sequence(alternative);
            jumps.push(self.push(Instruction::Jump(0)));
        }
        let end = self.here();
        self.instructions[split] = Instruction::Split(starts);
        for jump in jumps {
            self.instructions[jump] = Instruction::Jump(end);
        }
    }

    /// once: `start: body; split start, end`; any number: a split to the end before it.
    fn repeat(&mut self, repeat: &Repeat) {
        let skip = (!repeat.at_least_once).then(|| self.push(Instruction::Split(Vec::new())));
        let start = self.here();
        self.group(repeat);
        let again = self.push(Instruction::Split(Vec::new()));
        let end = self.here();
        self.instructions[again] = Instruction::Split(vec![start, end]);
        if let Some(skip) = skip {
            self.instructions[skip] = Instruction::Split(vec![start, end]);
        }
    }

    fn group(&mut self, repeat: &Repeat) {
        self.push(Instruction::GroupStart(repeat.name.clone()));
        self.sequence(&repeat.body);
        self.push(Instruction::GroupEnd);
    }

    fn any_order(&mut self, options: &[AnyOrderOption]) {
        let set = self.sets;
        self.sets += 1;
        self.push(Instruction::OptionsEnter(set));
        let choose = self.push(Instruction::Accept);
        let mut starts = Vec::new();
        let mut required = 0;
        let mut repeatable = 0;
        for (option, body) in options.iter().enumerate() {
            starts.push(self.push(Instruction::OptionUsed { set, option }));
            match body {
                AnyOrderOption::Required(body) => {
                    required |= 1 << option;
                    self.sequence(body);
                }
                AnyOrderOption::AtMostOnce(body) => self.sequence(body),
                AnyOrderOption::Repeated(repeat) => {
                    required |= u64::from(repeat.at_least_once) << option;
                    repeatable |= 1 << option;
                    self.group(repeat);
                }
            }
            self.push(Instruction::Jump(choose));
        }
        self.instructions[choose] =
            Instruction::Options(Box::new(Options { set, starts, required, repeatable, exit: self.here() }));
    }
}

/// What `args.text(name)` answers for an alternative: its first keyword, or the name of
/// the value with which it begins.
fn choice_name(alternative: &[Element]) -> String {
    match alternative.first() {
        Some(Element::Keyword(word)) => word.clone(),
        Some(Element::Value { name, .. }) => name.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_the_leading_plain_words() {
        let syntax = Syntax::parse("show ip fib [<prefix:prefix4>] [detail]").unwrap();
        assert_eq!(syntax.path, ["show", "ip", "fib"]);
        assert_eq!(shown(&syntax.parameters), "[<prefix>] [detail]");
    }

    #[test]
    fn help_shows_the_syntax_without_types() {
        for (syntax, help) in [
            ("x <i:interface> {up|down:state}", "<i> {up|down}"),
            ("x (via <next_hop:ip4> [weight <w:u32 1..255>] : paths)+", "via <next-hop> [weight <w>] ..."),
            (
                "x '{' {{ name <n:word> | [limit <l:u64>] | data <d:block> | (tag <t:word> : tags)* }} '}'",
                "{ name <n> [limit <l>] data { ... } [tag <t> ...] }",
            ),
            ("x {a|{b|c:inner}:outer}", "{a|{b|c}}"),
        ] {
            assert_eq!(shown(&Syntax::parse(syntax).unwrap().parameters), help);
        }
    }

    #[test]
    fn a_malformed_syntax_says_where() {
        for (syntax, message) in [
            ("<x:word>", "a command begins with a plain word"),
            ("x [y", "expected ']' at ''"),
            ("x y]", "']' closes nothing"),
            ("x <y>", "value '<y>' has no type"),
            ("x <y:zebra>", "unknown type 'zebra'"),
            ("x (y)+", "expected ':' at ')+': a repetition needs a name"),
            ("x {a|}", "an alternative is empty; use [ ] for what may be left out"),
            ("x {{ a | }}", "an option is empty"),
            ("x 'y", "no ''' after 'y'"),
        ] {
            assert_eq!(Syntax::parse(syntax).unwrap_err(), message, "{syntax}");
        }
    }
}
