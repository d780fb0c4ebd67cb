//! The questions: what is asked of which resolver, and when.

pub mod checks;
pub mod question;
pub mod resolvers;
pub mod table;
