//! The protocol of PostgreSQL, as far as the gateway's client speaks it.

use std::collections::HashMap;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::database::Database;
use super::functions::Raised;
use super::statements::{Arguments, Row, STATEMENTS, Statement};

/// One request of a client: a simple query, or what comes before a sync.
pub enum Asked {
    Startup,
    /// A query without parameters or an answer.
    Simple(String),
    Extended(Vec<Step>),
    /// The client has ended.
    Terminate,
}

/// One step of an extended query.
pub enum Step {
    Parse { name: String, sql: String },
    Describe { name: String },
    Bind { statement: String, values: Row },
    Execute,
    Close,
}

/// The state of one connection.
#[derive(Default)]
pub struct Session {
    pub listens: bool,
    is_started: bool,
    statements: HashMap<String, &'static Statement>,
    bound: Option<(&'static Statement, Arguments)>,
}

/// Reads one request.
pub async fn read(session: &mut Session, from: &mut (impl AsyncRead + Unpin)) -> io::Result<Asked> {
    if !std::mem::replace(&mut session.is_started, true) {
        let length = from.read_i32().await?;
        take(from, length).await?;
        return Ok(Asked::Startup);
    }
    let mut steps = Vec::new();
    loop {
        let tag = from.read_u8().await?;
        let length = from.read_i32().await?;
        let body = take(from, length).await?;
        let mut parts = Parts(&body);
        match tag {
            b'Q' => return Ok(Asked::Simple(parts.text())),
            b'X' => return Ok(Asked::Terminate),
            b'S' => return Ok(Asked::Extended(steps)),
            b'P' => {
                let (name, sql) = (parts.text(), parts.text());
                steps.push(Step::Parse { name, sql });
            }
            b'D' => {
                parts.bytes(1);
                let name = parts.text();
                steps.push(Step::Describe { name });
            }
            b'B' => steps.push(parts.bind()),
            b'E' => steps.push(Step::Execute),
            b'C' => steps.push(Step::Close),
            other => panic!("{:?} is no message that is expected", char::from(other)),
        }
    }
}

async fn take(from: &mut (impl AsyncRead + Unpin), length: i32) -> io::Result<Vec<u8>> {
    let mut body = vec![0; usize::try_from(length - 4).expect("a length")];
    from.read_exact(&mut body).await?;
    Ok(body)
}

/// The rest of a message.
struct Parts<'a>(&'a [u8]);

impl Parts<'_> {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken.to_vec()
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).expect("an end");
        let text = String::from_utf8(self.bytes(end)).expect("a text");
        self.bytes(1);
        text
    }

    fn short(&mut self) -> usize {
        let bytes = self.bytes(2);
        usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn bind(&mut self) -> Step {
        self.text();
        let statement = self.text();
        let formats = self.short();
        self.bytes(2 * formats);
        let count = self.short();
        let mut value = || {
            let length = self.bytes(4);
            let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
            Some(self.bytes(usize::try_from(length).ok()?))
        };
        let values = (0..count).map(|_| value()).collect();
        Step::Bind { statement, values }
    }
}

impl Session {
    /// Carries out a request, and returns the bytes of its answer. `arguments` may change what a client has said, and
    /// `rows` what it is told.
    pub fn answer(
        &mut self,
        db: &mut Database,
        asked: Asked,
        arguments: impl Fn(&Statement, &mut Arguments),
        rows: impl Fn(&Statement, &mut Vec<Row>),
    ) -> Vec<u8> {
        let mut out = Vec::new();
        match asked {
            Asked::Terminate => return out,
            Asked::Startup => message(&mut out, b'R', &0_i32.to_be_bytes()),
            Asked::Simple(sql) => {
                self.listens |= sql.starts_with("LISTEN");
                message(&mut out, b'C', b"SET\0");
            }
            Asked::Extended(steps) => {
                for step in steps {
                    if let Err(raised) = self.step(db, step, &arguments, &rows, &mut out) {
                        let words = format!("SERROR\0C{}\0Ma later call was made\0\0", raised.0);
                        message(&mut out, b'E', words.as_bytes());
                        break;
                    }
                }
            }
        }
        message(&mut out, b'Z', b"I");
        out
    }

    fn step(
        &mut self,
        db: &mut Database,
        step: Step,
        arguments: &impl Fn(&Statement, &mut Arguments),
        change: &impl Fn(&Statement, &mut Vec<Row>),
        out: &mut Vec<u8>,
    ) -> Result<(), Raised> {
        match step {
            Step::Parse { name, sql } => {
                self.statements.insert(name, statement(&sql));
                message(out, b'1', &[]);
            }
            Step::Describe { name } => {
                let statement = self.statements[&name];
                let mut body = count(statement.parameters.len());
                for oid in statement.parameters {
                    body.extend(oid.to_be_bytes());
                }
                message(out, b't', &body);
                let mut body = count(statement.columns.len());
                for oid in statement.columns {
                    body.extend(b"?\0");
                    body.extend(0_i32.to_be_bytes());
                    body.extend(0_i16.to_be_bytes());
                    body.extend(oid.to_be_bytes());
                    body.extend((-1_i16).to_be_bytes());
                    body.extend((-1_i32).to_be_bytes());
                    body.extend(1_i16.to_be_bytes());
                }
                message(out, b'T', &body);
            }
            Step::Bind { statement, values } => {
                let statement = self.statements[&statement];
                let types = statement.parameters;
                let mut given = Arguments { types, values };
                arguments(statement, &mut given);
                self.bound = Some((statement, given));
                message(out, b'2', &[]);
            }
            Step::Execute => {
                let (statement, given) = self.bound.take().expect("a bind");
                let mut rows = (statement.run)(db, &given)?;
                change(statement, &mut rows);
                for row in &rows {
                    let mut body = count(row.len());
                    for value in row {
                        match value {
                            None => body.extend((-1_i32).to_be_bytes()),
                            Some(value) => {
                                let length = i32::try_from(value.len()).expect("a length");
                                body.extend(length.to_be_bytes());
                                body.extend(value);
                            }
                        }
                    }
                    message(out, b'D', &body);
                }
                message(out, b'C', b"SELECT 1\0");
            }
            Step::Close => message(out, b'3', &[]),
        }
        Ok(())
    }
}

/// Returns the message that tells a client of a notification.
pub fn notification() -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, b'A', b"\0\0\0\0nsgate\0\0");
    out
}

fn count(count: usize) -> Vec<u8> {
    u16::try_from(count)
        .expect("a count")
        .to_be_bytes()
        .to_vec()
}

fn message(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    let length = i32::try_from(body.len() + 4).expect("a length");
    out.extend(length.to_be_bytes());
    out.extend(body);
}

/// Finds a statement, whatever its line breaks.
fn statement(sql: &str) -> &'static Statement {
    let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = STATEMENTS.iter().find(|known| known.sql == sql);
    found.unwrap_or_else(|| panic!("the simulated server does not know the statement: {sql}"))
}
