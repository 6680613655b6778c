//! What is under test, when it is in this process.

pub mod quiver;
pub mod reference;
