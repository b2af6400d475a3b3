//! A simulated PostgreSQL with a batch log: its tables and functions, and its protocol. It knows the statements of the
//! gateway, and no others; each runs alone. `postgres/simulated.rs` proves that it acts as a real server.

#[path = "simulated_postgres/database.rs"]
mod database;
#[path = "simulated_postgres/functions.rs"]
mod functions;
#[path = "simulated_postgres/oids.rs"]
mod oids;
#[path = "simulated_postgres/protocol.rs"]
mod protocol;
#[path = "simulated_postgres/rows.rs"]
mod rows;
#[path = "simulated_postgres/statements.rs"]
mod statements;

pub use database::Database;
pub use protocol::{Asked, Session, notification, read};
pub use statements::{Arguments, STATEMENTS, Statement};
