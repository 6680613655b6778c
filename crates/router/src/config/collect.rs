//! Collects what operators stated, a part at a time. Routes and interfaces may be many, so other clients are answered
//! between two parts.

use super::ConfigError;
use crate::capability::{List, Part, Phase, Statement, Statements};
use crate::listing::{PAGE, Pages};
use crate::{Router, check_memory};

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
    let (mut collecting, mut statements) = (Collecting::of(router.capabilities), Vec::new());
    while collecting.go_on(router, &mut statements) {}
    statements
}

/// The same, in pieces.
pub(super) fn collect_config(router: &mut Router) -> Result<Vec<Statement>, ConfigError> {
    let (mut collecting, mut statements) = (Collecting::of(router.capabilities), Vec::new());
    while collecting.go_on(router, &mut statements) {
        router.breathe();
        check_memory()?;
    }
    Ok(statements)
}

/// Only the lines, in pieces. Fails when the text is longer than `most` bytes.
pub(super) fn collect_lines(router: &mut Router, most: u64) -> Result<Vec<String>, ConfigError> {
    let (mut collecting, mut part, mut lines, mut length) =
        (Collecting::of(router.capabilities), Vec::new(), Vec::new(), 0);
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
    let (mut collecting, mut statements) = (Collecting::of(plan.capabilities), Vec::new());
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
    use crate::CAPABILITIES;

    /// A part that needs another one stands behind it, whatever the order of the capabilities.
    #[test]
    fn parts_are_carried_out_by_phase_and_none_is_left_out() {
        let ordered = parts(CAPABILITIES);
        assert_eq!(ordered.len(), CAPABILITIES.iter().map(|one| one.statements.len()).sum::<usize>());
        assert!(ordered.is_sorted_by_key(|(phase, _)| *phase));
        // Of the first and the last phase there are some; and the list of capabilities is not in this order itself.
        assert_eq!(ordered.first().map(|(phase, _)| *phase), Some(Phase::Log));
        assert_eq!(ordered.last().map(|(phase, _)| *phase), Some(Phase::Services));
        assert!(!CAPABILITIES.iter().flat_map(|one| one.statements).is_sorted_by_key(|(phase, _)| *phase));
    }
}
