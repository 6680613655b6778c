//! Labels, as routing has them: where they lead, and which ones paths put before packets. What is done with labelled
//! packets is [`crate::mpls`].

pub mod control;
pub mod key;
pub mod out;
pub(crate) mod pop;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod words;
