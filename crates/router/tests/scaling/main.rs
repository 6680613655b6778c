//! What commands cost grows with the work that they do, and not with its square: each is given with some work and with
//! four times as much, which may take less than six times the processor time and memory.
//!
//! The time is that of the thread, the best of some: other programs on the machine do not count. A binary of its own,
//! whose tests take turns, so that memory is told apart.

mod cost;
mod growth;
