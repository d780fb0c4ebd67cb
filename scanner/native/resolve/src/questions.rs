//! Questions: their attempts and timers, and the choice of a resolver.

pub mod checks;
pub mod question;
pub mod resolvers;
pub mod table;
