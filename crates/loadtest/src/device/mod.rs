//! What is under test, when the load tester brings it along: in this process, or started by it.

pub mod fault_injection;
pub mod kernel;
pub mod process;
pub mod quiver;
pub mod reference;
pub mod testpmd;
