//! The statements of the gateway, with the types of their parameters and columns.

use tokio_postgres::types::{FromSqlOwned, IsNull, ToSql, Type};
use uuid::Uuid;

use super::database::{Batch, Database};
use super::functions::{Caller, Raised, Write};
use super::oids::*;

/// The values of one row, as the protocol has them; `None` is NULL.
pub type Row = Vec<Option<Vec<u8>>>;
type Answer = Result<Vec<Row>, Raised>;

/// A statement, and what it does.
pub struct Statement {
    pub sql: &'static str,
    pub parameters: &'static [u32],
    pub columns: &'static [u32],
    pub run: fn(&mut Database, &Arguments) -> Answer,
}

/// The arguments of one call.
pub struct Arguments {
    pub types: &'static [u32],
    pub values: Row,
}

impl Arguments {
    /// Returns an argument, counted from 1.
    pub fn get<T: FromSqlOwned>(&self, number: usize) -> T {
        let type_ = Type::from_oid(self.types[number - 1]).expect("a type that is built in");
        let value = self.values[number - 1].as_deref();
        T::from_sql_nullable(&type_, value).expect("an argument of its type")
    }

    /// Replaces an argument, counted from 1.
    pub fn set(&mut self, number: usize, value: &(impl ToSql + Sync)) {
        self.values[number - 1] = cell(value, self.types[number - 1]);
    }

    fn dead(&self, ids: usize) -> Vec<(Uuid, i64)> {
        let (ids, beats): (Vec<Uuid>, Vec<i64>) = (self.get(ids), self.get(ids + 1));
        ids.into_iter().zip(beats).collect()
    }

    fn caller(&self) -> Caller {
        Caller {
            id: self.get(1),
            name: self.get(2),
            version: self.get(3),
            lease_millis: self.get(4),
            address: self.get(5),
            token: self.get(6),
            dead: self.dead(7),
        }
    }

    fn guards(&self) -> Vec<(String, bool)> {
        let (keys, names): (Vec<String>, Vec<bool>) = (self.get(4), self.get(5));
        keys.into_iter().zip(names).collect()
    }

    fn owner(&self) -> (Uuid, i64, i64) {
        (self.get(1), self.get(2), self.get(3))
    }

    fn writes(&self) -> Vec<Write> {
        let (kinds, ids): (Vec<String>, Vec<Uuid>) = (self.get(5), self.get(6));
        let numbers: Vec<Option<i64>> = self.get(7);
        let lines: Vec<Option<Vec<u8>>> = self.get(8);
        let keys: Vec<Option<String>> = self.get(9);
        let numbered = kinds.into_iter().zip(ids).zip(numbers);
        let writes = numbered.zip(lines).zip(keys);
        let write = |((((kind, id), number), line), key)| Write {
            kind,
            id,
            number,
            line,
            key,
        };
        writes.map(write).collect()
    }
}

/// Returns a value as the protocol has it.
pub fn cell(value: &(impl ToSql + Sync), oid: u32) -> Option<Vec<u8>> {
    let type_ = Type::from_oid(oid).expect("a type that is built in");
    let mut bytes = bytes::BytesMut::new();
    match value
        .to_sql_checked(&type_, &mut bytes)
        .expect("a value of its type")
    {
        IsNull::Yes => None,
        IsNull::No => Some(bytes.to_vec()),
    }
}

fn one(value: &(impl ToSql + Sync), oid: u32) -> Answer {
    Ok(vec![vec![cell(value, oid)]])
}

fn look(db: &mut Database, _: &Arguments) -> Answer {
    let mut rows = Vec::new();
    let one = |value: &Database| {
        vec![
            cell(&2, I32),
            cell(&value.moved, TEXT),
            cell(&value.owner, UUID),
            cell(&150_000, I32),
            cell(&true, BOOL),
        ]
    };
    for seen in &db.instances {
        let mut row = one(db);
        row.extend([
            cell(&seen.id, UUID),
            cell(&seen.name, TEXT),
            cell(&seen.beat, I64),
            cell(&seen.lease_millis, I64),
            cell(&seen.address, TEXT),
            cell(&seen.token, TEXT),
            cell(&seen.version, TEXT),
            cell(&seen.routes, TEXT),
        ]);
        rows.push(row);
    }
    if rows.is_empty() {
        let mut row = one(db);
        row.extend(std::iter::repeat_n(None, 8));
        rows.push(row);
    }
    Ok(rows)
}

/// Returns the rows of batches.
fn batches(db: &Database, ids: impl Iterator<Item = Uuid>) -> Answer {
    let row = |id: Uuid| {
        let batch = &db.batches[&id];
        let resolutions = db.resolutions.get(&id).cloned().unwrap_or_default();
        let settled: Vec<Vec<u8>> = db.settled(id).collect();
        vec![
            cell(&id, UUID),
            cell(&batch.intent, BYTES),
            cell(&batch.body, BYTES),
            cell(&batch.ended, I64),
            cell(&resolutions, BYTES_LIST),
            cell(&settled, BYTES_LIST),
        ]
    };
    Ok(ids.map(row).collect())
}

/// Returns a page of the batches that `is` accepts.
fn page(db: &Database, given: &Arguments, is: fn(&Batch) -> bool) -> Answer {
    let (after, most): (Uuid, i64) = (given.get(1), given.get(2));
    let found = db
        .batches
        .iter()
        .filter(|(id, batch)| **id > after && is(batch));
    let ids = found.map(|(id, _)| *id);
    batches(db, ids.take(usize::try_from(most).expect("a count")))
}

const BATCH: &[u32] = &[UUID, BYTES, BYTES, I64, BYTES_LIST, BYTES_LIST];
const ENTER: &[u32] = &[UUID, TEXT, TEXT, I64, TEXT, TEXT, UUIDS, I64S];

/// All statements of a gateway that shares the log.
pub static STATEMENTS: &[Statement] = &[
    Statement {
        sql: "SELECT l.format, l.moved, l.owner, current_setting('server_version_num')::integer, current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', i.id, i.name, i.beat, i.lease_ms, i.address, i.token, i.version, i.routes FROM log l LEFT JOIN instance i ON true",
        parameters: &[],
        columns: &[
            I32, TEXT, UUID, I32, BOOL, UUID, TEXT, I64, I64, TEXT, TEXT, TEXT, TEXT,
        ],
        run: look,
    },
    Statement {
        sql: "SELECT take_2($1, $2, $3, $4, $5, $6, $7, $8)",
        parameters: ENTER,
        columns: &[I64],
        run: |db, given| one(&db.take(&given.caller()), I64),
    },
    Statement {
        sql: "SELECT join_2($1, $2, $3, $4, $5, $6, $7, $8)",
        parameters: ENTER,
        columns: &[TEXT],
        run: |db, given| one(&db.join(&given.caller()), TEXT),
    },
    Statement {
        sql: "SELECT beat_2($1, $2)",
        parameters: &[UUID, TEXT],
        columns: &[BOOL],
        run: |db, given| one(&db.beat(given.get(1), Some(given.get(2))), BOOL),
    },
    Statement {
        sql: "SELECT leave_1($1)",
        parameters: &[UUID],
        columns: &[VOID],
        run: |db, given| {
            db.leave(given.get(1));
            Ok(vec![vec![Some(Vec::new())]])
        },
    },
    Statement {
        sql: "SELECT expire_2($1, $2, $3, $4)",
        parameters: &[UUID, I64, UUIDS, I64S],
        columns: &[UUIDS],
        run: |db, given| {
            one(
                &db.expire(given.get(1), given.get(2), &given.dead(3)),
                UUIDS,
            )
        },
    },
    Statement {
        sql: "SELECT claim_3($1, $2, $3, $4, $5, $6)",
        parameters: &[UUID, I64, I64, TEXTS, BOOLS, I64S],
        columns: &[I64],
        run: |db, given| {
            let places: Vec<i64> = given.get(6);
            one(
                &db.claim_apart(given.owner(), given.guards(), &places)?,
                I64,
            )
        },
    },
    Statement {
        sql: "SELECT replace_2($1, $2, $3, $4, $5, $6)",
        parameters: &[UUID, I64, I64, TEXTS, BOOLS, TEXTS],
        columns: &[I64],
        run: |db, given| {
            let addresses: Vec<String> = given.get(6);
            one(&db.replace(given.owner(), given.guards(), &addresses)?, I64)
        },
    },
    Statement {
        sql: "SELECT release_2($1, $2, $3, $4)",
        parameters: &[UUID, I64, I64, TEXTS],
        columns: &[BOOL],
        run: |db, given| {
            let keys: Vec<String> = given.get(4);
            one(&db.release(given.owner(), &keys)?, BOOL)
        },
    },
    Statement {
        sql: "SELECT set_config('synchronous_commit', 'off', true), acknowledge_2($1, $2, $3)",
        parameters: &[UUID, I64S, TEXTS],
        columns: &[TEXT, VOID],
        run: |db, given| {
            let tickets: Vec<i64> = given.get(2);
            db.acknowledge(given.get(1), &tickets, given.get(3));
            Ok(vec![vec![cell(&"off", TEXT), Some(Vec::new())]])
        },
    },
    Statement {
        sql: "SELECT write_1($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        parameters: &[UUID, I64, I32, I64, TEXTS, UUIDS, I64S, BYTES_LIST, TEXTS],
        columns: &[TEXT],
        run: |db, given| {
            let (owner, writer) = ((given.get(1), given.get(2)), (given.get(3), given.get(4)));
            one(&db.write(owner, writer, given.writes())?, TEXT)
        },
    },
    Statement {
        sql: "SELECT forget_1($1, $2, $3, $4)",
        parameters: &[UUID, I64, I64, I64],
        columns: &[BOOL],
        run: |db, given| {
            let forgotten = db.forget(given.get(1), given.get(2), given.get(3), given.get(4));
            one(&forgotten, BOOL)
        },
    },
    Statement {
        sql: "SELECT owner, ticket, released, ARRAY(SELECT id FROM instance ORDER BY id), ARRAY(SELECT beat FROM instance ORDER BY id) FROM log",
        parameters: &[],
        columns: &[UUID, I64, I64, UUIDS, I64S],
        run: |db, _| {
            let (ids, beats) = db.beats();
            Ok(vec![vec![
                cell(&db.owner, UUID),
                cell(&db.ticket, I64),
                cell(&db.released, I64),
                cell(&ids, UUIDS),
                cell(&beats, I64S),
            ]])
        },
    },
    Statement {
        sql: "SELECT key, names, ticket FROM guard WHERE ticket > $1",
        parameters: &[I64],
        columns: &[TEXT, BOOL, I64],
        run: |db, given| {
            let after: i64 = given.get(1);
            let guards = db.guards.iter().filter(|(_, (ticket, _))| *ticket > after);
            let row = |(key, (ticket, names)): (&String, &(i64, bool))| {
                vec![cell(key, TEXT), cell(names, BOOL), cell(ticket, I64)]
            };
            Ok(guards.map(row).collect())
        },
    },
    Statement {
        sql: "SELECT key, names FROM guard WHERE ticket >= $1",
        parameters: &[I64],
        columns: &[TEXT, BOOL],
        run: |db, given| {
            let from: i64 = given.get(1);
            let guards = db.guards.iter().filter(|(_, (ticket, _))| *ticket >= from);
            let row = |(key, (_, names)): (&String, &(i64, bool))| {
                vec![cell(key, TEXT), cell(names, BOOL)]
            };
            Ok(guards.map(row).collect())
        },
    },
    Statement {
        sql: "SELECT key FROM guard",
        parameters: &[],
        columns: &[TEXT],
        run: |db, _| Ok(db.guards.keys().map(|key| vec![cell(key, TEXT)]).collect()),
    },
    Statement {
        sql: "SELECT ticket FROM owed WHERE member = $1",
        parameters: &[UUID],
        columns: &[I64],
        run: |db, given| {
            let me: Uuid = given.get(1);
            let owed = db.owed.iter().filter(|(_, member)| *member == me);
            Ok(owed.map(|(ticket, _)| vec![cell(ticket, I64)]).collect())
        },
    },
    Statement {
        sql: "SELECT DISTINCT ticket FROM owed WHERE ticket = ANY ($1)",
        parameters: &[I64S],
        columns: &[I64],
        run: |db, given| {
            let mut tickets: Vec<i64> = given.get(1);
            tickets.sort_unstable();
            tickets.dedup();
            let is_owed = |one: &i64| db.owed.iter().any(|(ticket, _)| ticket == one);
            let owed = tickets.iter().filter(|one| is_owed(one));
            Ok(owed.map(|ticket| vec![cell(ticket, I64)]).collect())
        },
    },
    Statement {
        sql: "INSERT INTO stray (key) VALUES ($1) ON CONFLICT DO NOTHING RETURNING key",
        parameters: &[TEXT],
        columns: &[TEXT],
        run: |db, given| {
            let key: String = given.get(1);
            let is_new = db.strays.insert(key.clone());
            Ok(is_new.then(|| vec![cell(&key, TEXT)]).into_iter().collect())
        },
    },
    Statement {
        sql: "DELETE FROM stray WHERE key = ANY ($1) RETURNING key",
        parameters: &[TEXTS],
        columns: &[TEXT],
        run: |db, given| {
            let keys: Vec<String> = given.get(1);
            let gone = db.strays.extract_if(.., |key| keys.contains(key));
            Ok(gone.map(|key| vec![cell(&key, TEXT)]).collect())
        },
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b WHERE b.id = $1",
        parameters: &[UUID],
        columns: BATCH,
        run: |db, given| {
            let id: Uuid = given.get(1);
            batches(db, db.batches.contains_key(&id).then_some(id).into_iter())
        },
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b WHERE b.key = $1 ORDER BY b.id DESC LIMIT 1",
        parameters: &[TEXT],
        columns: BATCH,
        run: |db, given| {
            let key: Option<String> = Some(given.get(1));
            let found = db.batches.iter().rev().find(|(_, batch)| batch.key == key);
            batches(db, found.map(|(id, _)| *id).into_iter())
        },
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b WHERE b.ended IS NULL AND b.id > $1 ORDER BY b.id LIMIT $2",
        parameters: &[UUID, I64],
        columns: BATCH,
        run: |db, given| page(db, given, |batch| batch.ended.is_none()),
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b ORDER BY b.id DESC LIMIT 1",
        parameters: &[],
        columns: BATCH,
        run: |db, _| batches(db, db.batches.keys().next_back().copied().into_iter()),
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b WHERE b.id > $1 ORDER BY b.id LIMIT $2",
        parameters: &[UUID, I64],
        columns: BATCH,
        run: |db, given| page(db, given, |_| true),
    },
];
