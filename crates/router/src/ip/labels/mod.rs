//! Labels, as routing has them: where they lead, and which ones paths put before packets. What is done with labelled
//! packets is `protocols::mpls`.

pub mod change;
pub mod control;
pub mod key;
pub mod out;
pub mod pop;
pub mod table;
pub(crate) mod text;
pub mod words;
