//! Where routes of Linux lead. Very many share few targets, so each is kept once, by a number.

use crate::netlink::route::Target;
use std::collections::HashMap;

/// All targets that routes have.
#[derive(Debug, Default)]
pub struct Targets {
    known: Vec<Option<(Target, u32)>>,
    free: Vec<u32>,
    numbers: HashMap<Target, u32>,
}

impl Targets {
    /// The number of a target for one route more.
    pub fn hold(&mut self, target: &Target) -> u32 {
        let number = match self.numbers.get(target) {
            Some(number) => *number,
            None => {
                let number = self.free.pop().unwrap_or(self.known.len() as u32);
                if number as usize == self.known.len() {
                    self.known.push(None);
                }
                self.known[number as usize] = Some((target.clone(), 0));
                self.numbers.insert(target.clone(), number);
                number
            }
        };
        self.known[number as usize].as_mut().expect("its number is known").1 += 1;
        number
    }

    /// The number of a target that routes have.
    pub fn find(&self, target: &Target) -> Option<u32> {
        self.numbers.get(target).copied()
    }

    /// A route less has it.
    pub fn let_go(&mut self, number: u32) {
        let Some(slot) = self.known.get_mut(number as usize) else { return };
        let Some((target, users)) = slot else { return };
        *users -= 1;
        if *users == 0 {
            self.numbers.remove(target);
            *slot = None;
            self.free.push(number);
        }
    }

    pub fn get(&self, number: u32) -> Option<&Target> {
        self.known.get(number as usize)?.as_ref().map(|(target, _)| target)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Target)> {
        let numbered = self.known.iter().enumerate();
        numbered.filter_map(|(number, known)| known.as_ref().map(|(target, _)| (number as u32, target)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_again_when_no_route_has_it() {
        let mut targets = Targets::default();
        let drop = targets.hold(&Target::Drop);
        assert_eq!((targets.hold(&Target::Drop), targets.hold(&Target::Object(1))), (drop, 1));
        targets.let_go(drop);
        assert_eq!(targets.find(&Target::Drop), Some(drop));
        targets.let_go(drop);
        assert_eq!((targets.find(&Target::Drop), targets.get(drop)), (None, None));
        assert_eq!(targets.hold(&Target::Prohibit), drop);
        assert_eq!(targets.iter().count(), 2);
    }
}
