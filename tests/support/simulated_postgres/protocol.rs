//! The protocol of PostgreSQL, as far as the gateway's client speaks it.

use std::collections::HashMap;
use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::database::Database;
use super::functions::Raised;
use super::rows::{Rows, message};
use super::statements::{Arguments, STATEMENTS, Statement, Values};

/// The usual size of an answer.
const ANSWER: usize = 1024;

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
    Bind { statement: String, values: Values },
    Execute,
    Close,
}

/// The state of one connection.
#[derive(Default)]
pub struct Session {
    pub listens: bool,
    is_started: bool,
    /// The bytes that have arrived, and the steps before the next sync.
    arrived: BytesMut,
    steps: Vec<Step>,
    statements: HashMap<String, &'static Statement>,
    bound: Option<(&'static Statement, Arguments)>,
}

/// Reads one request.
pub async fn read(session: &mut Session, from: &mut (impl AsyncRead + Unpin)) -> io::Result<Asked> {
    loop {
        if let Some(asked) = session.next() {
            return Ok(asked);
        }
        if from.read_buf(&mut session.arrived).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The rest of a message.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn text(&mut self) -> &'a str {
        let end = memchr::memchr(0, self.0).expect("an end");
        let text = self.bytes(end);
        self.bytes(1);
        str::from_utf8(text).expect("a text")
    }

    fn short(&mut self) -> usize {
        let bytes = self.bytes(2);
        usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn bind(&mut self) -> Step {
        self.text();
        let statement = self.text().to_owned();
        let formats = self.short();
        self.bytes(2 * formats);
        let count = self.short();
        let mut value = || {
            let length = self.bytes(4);
            let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
            Some(self.bytes(usize::try_from(length).ok()?).to_vec())
        };
        let values = (0..count).map(|_| value()).collect();
        Step::Bind { statement, values }
    }
}

impl Session {
    /// Takes the next message from what has arrived: its tag, which the first message has not, and its body.
    fn message(&mut self) -> Option<(Option<u8>, BytesMut)> {
        let tags = usize::from(self.is_started);
        let length = self.arrived.get(tags..tags + 4)?;
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        let end = tags + usize::try_from(length).expect("a length");
        if self.arrived.len() < end {
            return None;
        }
        let mut message = self.arrived.split_to(end);
        self.is_started = true;
        let body = message.split_off(tags + 4);
        Some((message.first().copied().filter(|_| tags > 0), body))
    }

    /// Takes the next request from what has arrived; `None` if more has to arrive.
    fn next(&mut self) -> Option<Asked> {
        loop {
            let (tag, body) = self.message()?;
            let mut parts = Parts(&body);
            let step = match tag {
                None => return Some(Asked::Startup),
                Some(b'Q') => return Some(Asked::Simple(parts.text().to_owned())),
                Some(b'X') => return Some(Asked::Terminate),
                Some(b'S') => return Some(Asked::Extended(std::mem::take(&mut self.steps))),
                Some(b'P') => Step::Parse {
                    name: parts.text().to_owned(),
                    sql: parts.text().to_owned(),
                },
                Some(b'D') => {
                    parts.bytes(1);
                    let name = parts.text().to_owned();
                    Step::Describe { name }
                }
                Some(b'B') => parts.bind(),
                Some(b'E') => Step::Execute,
                Some(b'C') => Step::Close,
                Some(other) => panic!("{:?} is no message that is expected", char::from(other)),
            };
            self.steps.push(step);
        }
    }

    /// Carries out a request, and returns the bytes of its answer. `arguments` may change what a client has said. `pace` is
    /// the time that passes while the clock of the client shows a second, in thousandths.
    pub fn answer(
        &mut self,
        db: &mut Database,
        asked: Asked,
        arguments: impl Fn(&Statement, &mut Arguments),
        pace: i64,
    ) -> BytesMut {
        let mut out = BytesMut::with_capacity(ANSWER);
        match asked {
            Asked::Terminate => return out,
            Asked::Startup => say(&mut out, b'R', &0_i32.to_be_bytes()),
            Asked::Simple(sql) => {
                self.listens |= sql.starts_with("LISTEN");
                say(&mut out, b'C', b"SET\0");
            }
            Asked::Extended(steps) => {
                for step in steps {
                    if let Err(raised) = self.step(db, step, &arguments, pace, &mut out) {
                        let words = format!("SERROR\0C{}\0Ma later call was made\0\0", raised.0);
                        say(&mut out, b'E', words.as_bytes());
                        break;
                    }
                }
            }
        }
        say(&mut out, b'Z', b"I");
        out
    }

    fn step(
        &mut self,
        db: &mut Database,
        step: Step,
        arguments: &impl Fn(&Statement, &mut Arguments),
        pace: i64,
        out: &mut BytesMut,
    ) -> Result<(), Raised> {
        match step {
            Step::Parse { name, sql } => {
                self.statements.insert(name, statement(&sql));
                say(out, b'1', &[]);
            }
            Step::Describe { name } => describe(self.statements[&name], out),
            Step::Bind { statement, values } => {
                let statement = self.statements[&statement];
                let types = statement.parameters;
                let mut given = Arguments { types, values };
                arguments(statement, &mut given);
                self.bound = Some((statement, given));
                say(out, b'2', &[]);
            }
            Step::Execute => {
                let (statement, given) = self.bound.take().expect("a bind");
                let columns = statement.columns;
                (statement.run)(db, &given, &mut Rows { columns, out, pace })?;
                say(out, b'C', b"SELECT 1\0");
            }
            Step::Close => say(out, b'3', &[]),
        }
        Ok(())
    }
}

/// Describes the parameters and columns of a statement.
fn describe(statement: &Statement, out: &mut BytesMut) {
    let count = |out: &mut BytesMut, all: &[u32]| {
        let count = u16::try_from(all.len()).expect("a count");
        out.extend_from_slice(&count.to_be_bytes());
    };
    message(out, b't', |out| {
        count(out, statement.parameters);
        for oid in statement.parameters {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
    message(out, b'T', |out| {
        count(out, statement.columns);
        for oid in statement.columns {
            // Its name, table and column, and behind the type its size, modifier and format.
            out.extend_from_slice(b"?\0\0\0\0\0\0\0");
            out.extend_from_slice(&oid.to_be_bytes());
            out.extend_from_slice(b"\xff\xff\xff\xff\xff\xff\0\x01");
        }
    });
}

/// Returns the message that tells a client of a notification.
pub fn notification() -> BytesMut {
    let mut out = BytesMut::new();
    say(&mut out, b'A', b"\0\0\0\0nsgate\0\0");
    out
}

fn say(out: &mut BytesMut, tag: u8, body: &[u8]) {
    message(out, tag, |out| out.extend_from_slice(body));
}

/// Finds a statement, whatever its line breaks.
fn statement(sql: &str) -> &'static Statement {
    let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let found = STATEMENTS.iter().find(|known| known.sql == sql);
    found.unwrap_or_else(|| panic!("the simulated server does not know the statement: {sql}"))
}
