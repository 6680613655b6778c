//! Collects what operators stated, a part at a time. Routes and interfaces may be many, so other clients are answered
//! between two parts.

use super::ConfigError;
use router::capability::{List, Part, Phase, Statement, Statements};
use router::listing::{PAGE, Pages};
use router::{Router, check_memory};

/// The parts of all capabilities, in the order in which they are carried out.
fn parts(capabilities: List) -> Vec<&'static (Phase, Part)> {
    let mut parts: Vec<_> = capabilities.iter().flat_map(|one| one.statements).collect();
    parts.sort_by_key(|(phase, _)| *phase); // a stable sort
    parts
}

/// Most parts that are collected for one page.
const PARTS: usize = 16;

/// A configuration that is being collected.
pub(super) struct Collecting {
    /// The parts that are still to be asked.
    rest: std::vec::IntoIter<&'static (Phase, Part)>,
    /// The statements of the last one, while there may be more.
    more: Option<Box<dyn Statements>>,
}

impl Collecting {
    pub fn of(capabilities: List) -> Collecting {
        Collecting { rest: parts(capabilities).into_iter(), more: None }
    }

    /// Collects the next part. Returns whether there may be more.
    pub fn go_on(&mut self, router: &Router, into: &mut Vec<Statement>) -> bool {
        if let Some(more) = &mut self.more {
            if !more.go_on(router, into) {
                self.more = None;
            }
            return true;
        }
        match self.rest.next() {
            None => return false,
            Some((_, Part::Few(state))) => state(router, into),
            Some((_, Part::Many(begin))) => self.more = Some(begin()),
        }
        true
    }
}

/// The same, as lines, page by page.
impl Pages for Collecting {
    type Entry = String;

    fn next(&mut self, router: &Router) -> Option<Vec<String>> {
        let mut page = Vec::new();
        // A bound on parts, because a part may be empty: of many routes, perhaps none is an operator's.
        for _ in 0..PARTS {
            if page.len() >= PAGE {
                break;
            }
            if !self.go_on(router, &mut page) {
                (!page.is_empty()).then_some(())?;
                break;
            }
        }
        let lines = page.into_iter().map(|statement| statement.line).collect();
        Some(lines)
    }
}

/// What operators stated, ordered so that it can be stated again.
pub fn running_config(router: &Router) -> Vec<Statement> {
    let (mut collecting, mut statements) = (Collecting::of(router.capabilities()), Vec::new());
    while collecting.go_on(router, &mut statements) {}
    statements
}

/// The same, in pieces.
pub(super) fn collect_config(router: &mut Router) -> Result<Vec<Statement>, ConfigError> {
    let (mut collecting, mut statements) = (Collecting::of(router.capabilities()), Vec::new());
    while collecting.go_on(router, &mut statements) {
        router.breathe();
        check_memory()?;
    }
    Ok(statements)
}

/// Only the lines, in pieces. Fails when the text is longer than `most` bytes.
pub(super) fn collect_lines(router: &mut Router, most: u64) -> Result<Vec<String>, ConfigError> {
    let (mut collecting, mut part, mut lines, mut length) =
        (Collecting::of(router.capabilities()), Vec::new(), Vec::new(), 0);
    while collecting.go_on(router, &mut part) {
        length += part.iter().map(|statement| statement.line.len() as u64 + 1).sum::<u64>();
        let added = part.drain(..).map(|statement| statement.line);
        match length > most {
            true => lines.clear(),
            false => lines.extend(added),
        }
        router.breathe();
        check_memory()?;
    }
    if length > most { Err(ConfigError::TooLong { length }) } else { Ok(lines) }
}

/// What the plan states, in pieces. The plan is freed afterwards.
pub(super) fn collect_plan(router: &mut Router, plan: Router) -> Result<Vec<Statement>, ConfigError> {
    let (mut collecting, mut statements) = (Collecting::of(plan.capabilities()), Vec::new());
    while collecting.go_on(&plan, &mut statements) {
        router.breathe();
        check_memory()?;
    }
    router.aside(move || drop(plan));
    Ok(statements)
}

#[cfg(test)]
mod tests {
    use super::*;
    use router::capability::Description;

    const fn stating(statements: &'static [(Phase, Part)]) -> Description {
        Description { statements, ..Description::NONE }
    }

    /// A part that needs another one stands behind it, whatever the order of the capabilities.
    #[test]
    fn parts_are_carried_out_by_phase_and_none_is_left_out() {
        const LATE: Description =
            stating(&[(Phase::Services, Part::Few(|_, _| ())), (Phase::Interfaces, Part::Few(|_, _| ()))]);
        const EARLY: Description =
            stating(&[(Phase::Log, Part::Few(|_, _| ())), (Phase::Routes, Part::Few(|_, _| ()))]);
        let phases: Vec<Phase> = parts(&[&LATE, &EARLY]).into_iter().map(|(phase, _)| *phase).collect();
        assert_eq!(phases, [Phase::Log, Phase::Interfaces, Phase::Routes, Phase::Services]);
    }
}
