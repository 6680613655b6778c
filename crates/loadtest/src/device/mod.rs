//! What is under test, when the load tester brings it along: in this process, or started by it.

pub mod kernel;
pub mod plant;
pub mod process;
pub mod quiver;
pub mod reference;
pub mod testpmd;
