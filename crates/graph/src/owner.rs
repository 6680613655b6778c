//! Whose a buffer is, in builds that check it: debug builds, and those with the feature `checked`.
//!
//! A buffer is free, held by one [`crate::Buffers`], lent to a device, or under way from one owner to the next. Whoever
//! touches a buffer that is under way has it from then on. Any other touch of a buffer that is not one's own is a fault
//! of the program, and a panic that names both. In other builds nothing is recorded and nothing is checked.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether uses of buffers are checked in this build.
pub const CHECKED: bool = cfg!(any(debug_assertions, feature = "checked"));

/// States, in the upper bits of a buffer's word. Below them is the number of who has it, or had it last.
const STATE: u32 = 3 << 30;
const FREE: u32 = 0 << 30;
const HELD: u32 = 1 << 30;
const LENT: u32 = 2 << 30;
const UNDER_WAY: u32 = 3 << 30;

/// The owners of a pool's buffers. Empty in builds that do not check.
pub(crate) struct Owners {
    words: Box<[AtomicU32]>,
    names: Mutex<Vec<String>>,
}

impl Owners {
    pub fn new(buffers: u32) -> Owners {
        let count = if CHECKED { buffers as usize } else { 0 };
        Owners { words: (0..count).map(|_| AtomicU32::new(FREE)).collect(), names: Mutex::new(vec!["the pool".into()]) }
    }

    /// A new owner; its name is for reports.
    pub fn add(&self, name: &str) -> u32 {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.push(name.into());
        names.len() as u32 - 1
    }

    pub fn rename(&self, who: u32, name: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)[who as usize] = name.into();
    }

    /// A free buffer becomes `who`'s.
    #[inline(always)]
    pub fn take(&self, buffer: u32, who: u32) {
        if CHECKED {
            let before = self.words[buffer as usize].swap(HELD | who, Ordering::Relaxed);
            if before & STATE != FREE {
                self.fault(buffer, before, who, "was given it as a free one");
            }
        }
    }

    /// `who` touches a buffer.
    #[inline(always)]
    pub fn check(&self, buffer: u32, who: u32) {
        if CHECKED {
            self.check_for(buffer, who, "touched it");
        }
    }

    fn check_for(&self, buffer: u32, who: u32, what: &str) {
        let word = &self.words[buffer as usize];
        let now = word.load(Ordering::Relaxed);
        if now == HELD | who {
            return;
        }
        if now & STATE == UNDER_WAY {
            return word.store(HELD | who, Ordering::Relaxed);
        }
        self.fault(buffer, now, who, what);
    }

    /// `who` frees a buffer.
    #[inline(always)]
    pub fn put(&self, buffer: u32, who: u32) {
        if CHECKED {
            self.check_for(buffer, who, "freed it");
            self.words[buffer as usize].store(FREE | who, Ordering::Relaxed);
        }
    }

    /// A buffer goes to a device.
    #[inline(always)]
    pub fn lend(&self, buffer: u32) {
        self.become_state(buffer, LENT);
    }

    /// A buffer goes to whoever touches it next.
    #[inline(always)]
    pub fn send(&self, buffer: u32) {
        self.become_state(buffer, UNDER_WAY);
    }

    /// A buffer comes back from a device that is closed.
    #[inline(always)]
    pub fn give_back(&self, buffer: u32) {
        self.become_state(buffer, FREE);
    }

    #[inline(always)]
    fn become_state(&self, buffer: u32, state: u32) {
        if CHECKED {
            let word = &self.words[buffer as usize];
            word.store(word.load(Ordering::Relaxed) & !STATE | state, Ordering::Relaxed);
        }
    }

    #[cold]
    fn fault(&self, buffer: u32, word: u32, who: u32, what: &str) -> ! {
        let name = |who: u32| {
            let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            names.get(who as usize).cloned().unwrap_or_default()
        };
        let (owner, toucher) = (name(word & !STATE), name(who));
        match word & STATE {
            FREE => panic!("buffer {buffer} is free, last used by {owner}, and {toucher} {what}"),
            LENT => panic!("buffer {buffer} was lent to a device by {owner}, and {toucher} {what}"),
            _ => panic!("buffer {buffer} is held by {owner}, and {toucher} {what}"),
        }
    }
}
