//! The cost of commands grows with their work, not with its square. Each is run with some work and with four times as
//! much, which may take less than six times the processor time and memory.
//!
//! The time is the thread's own, the best of several runs, so other programs on the machine do not count. The tests are
//! in a binary of their own and take turns, so that each one's memory can be measured.

mod cost;
mod growth;
