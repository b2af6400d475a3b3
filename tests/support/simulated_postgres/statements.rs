//! The statements of the gateway, with the types of their parameters and columns.

use bytes::BytesMut;
use tokio_postgres::types::{FromSqlOwned, IsNull, ToSql, Type};
use uuid::Uuid;

use super::database::{Batch, Database};
use super::functions::{Caller, Raised, Write};
use super::oids::*;
use super::rows::Rows;

/// The values of a call, as the protocol has them; `None` is NULL.
pub type Values = Vec<Option<Vec<u8>>>;
type Answer = Result<(), Raised>;

/// A statement, and what it does.
pub struct Statement {
    pub sql: &'static str,
    pub parameters: &'static [u32],
    pub columns: &'static [u32],
    pub run: fn(&mut Database, &Arguments, &mut Rows) -> Answer,
}

/// The value of a function that returns none.
const NOTHING: &str = "";

/// The arguments of one call.
pub struct Arguments {
    pub types: &'static [u32],
    pub values: Values,
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
        let type_ = Type::from_oid(self.types[number - 1]).expect("a type that is built in");
        let mut bytes = BytesMut::new();
        let is_null = value.to_sql_checked(&type_, &mut bytes);
        let is_null = matches!(is_null.expect("a value of its type"), IsNull::Yes);
        self.values[number - 1] = (!is_null).then(|| bytes.to_vec());
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

/// Shows the gateways that use the log; `lives` is the result of a heartbeat.
fn look(db: &Database, rows: &mut Rows, lives: Option<bool>) {
    let pace = rows.pace;
    let mut row = |users: [&(dyn ToSql + Sync); 8]| {
        let log: [&(dyn ToSql + Sync); 5] = [&2, &db.moved, &db.owner, &150_000, &true];
        let mut values = Vec::with_capacity(14);
        values.extend(log);
        values.extend(users);
        if let Some(lives) = &lives {
            values.push(lives);
        }
        rows.add(&values);
    };
    for seen in &db.instances {
        row([
            &seen.id,
            &seen.name,
            &seen.beat,
            &(seen.lease_millis * pace / 1000),
            &seen.address,
            &seen.token,
            &seen.version,
            &seen.routes,
        ]);
    }
    if db.instances.is_empty() {
        let (id, text, number) = (None::<Uuid>, None::<&str>, None::<i64>);
        row([&id, &text, &number, &number, &text, &text, &text, &text]);
    }
}

/// Returns the rows of batches.
fn batches(db: &Database, ids: impl Iterator<Item = Uuid>, rows: &mut Rows) -> Answer {
    for id in ids {
        let batch = &db.batches[&id];
        let resolutions = db.resolutions.get(&id).cloned().unwrap_or_default();
        let settled: Vec<Vec<u8>> = db.settled(id).collect();
        rows.add(&[
            &id,
            &batch.intent,
            &batch.body,
            &batch.ended,
            &resolutions,
            &settled,
        ]);
    }
    Ok(())
}

/// Returns a page of the batches that `is` accepts.
fn page(db: &Database, given: &Arguments, rows: &mut Rows<'_>, is: fn(&Batch) -> bool) -> Answer {
    let (after, most): (Uuid, i64) = (given.get(1), given.get(2));
    let found = db.batches.iter();
    let found = found.filter(|(id, batch)| **id > after && is(batch));
    let ids = found.map(|(id, _)| *id);
    batches(db, ids.take(usize::try_from(most).expect("a count")), rows)
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
        run: |db, _, rows| {
            look(db, rows, None);
            Ok(())
        },
    },
    Statement {
        sql: "SELECT take_2($1, $2, $3, $4, $5, $6, $7, $8)",
        parameters: ENTER,
        columns: &[I64],
        run: |db, given, rows| rows.only(&[&db.take(&given.caller())]),
    },
    Statement {
        sql: "SELECT join_2($1, $2, $3, $4, $5, $6, $7, $8)",
        parameters: ENTER,
        columns: &[TEXT],
        run: |db, given, rows| rows.only(&[&db.join(&given.caller())]),
    },
    Statement {
        sql: "WITH heartbeat AS (SELECT beat_2($1, $2) AS lives) SELECT l.format, l.moved, l.owner, current_setting('server_version_num')::integer, current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', i.id, i.name, i.beat, i.lease_ms, i.address, i.token, i.version, i.routes, h.lives FROM heartbeat h, log l LEFT JOIN instance i ON true",
        parameters: &[UUID, TEXT],
        columns: &[
            I32, TEXT, UUID, I32, BOOL, UUID, TEXT, I64, I64, TEXT, TEXT, TEXT, TEXT, BOOL,
        ],
        run: |db, given, rows| {
            let me: Uuid = given.get(1);
            // It shows what was there before the heartbeat.
            let lives = db.instance(me).is_some();
            look(db, rows, Some(lives));
            assert_eq!(db.beat(me, Some(given.get(2))), lives);
            Ok(())
        },
    },
    Statement {
        sql: "SELECT leave_1($1)",
        parameters: &[UUID],
        columns: &[VOID],
        run: |db, given, rows| {
            db.leave(given.get(1));
            rows.only(&[&NOTHING])
        },
    },
    Statement {
        sql: "SELECT expire_2($1, $2, $3, $4)",
        parameters: &[UUID, I64, UUIDS, I64S],
        columns: &[UUIDS],
        run: |db, given, rows| rows.only(&[&db.expire(given.get(1), given.get(2), &given.dead(3))]),
    },
    Statement {
        sql: "SELECT claim_3($1, $2, $3, $4, $5, $6)",
        parameters: &[UUID, I64, I64, TEXTS, BOOLS, I64S],
        columns: &[I64],
        run: |db, given, rows| {
            let places: Vec<i64> = given.get(6);
            rows.only(&[&db.claim_apart(given.owner(), given.guards(), &places)?])
        },
    },
    Statement {
        sql: "SELECT replace_2($1, $2, $3, $4, $5, $6)",
        parameters: &[UUID, I64, I64, TEXTS, BOOLS, TEXTS],
        columns: &[I64],
        run: |db, given, rows| {
            let addresses: Vec<String> = given.get(6);
            rows.only(&[&db.replace(given.owner(), given.guards(), &addresses)?])
        },
    },
    Statement {
        sql: "SELECT release_2($1, $2, $3, $4)",
        parameters: &[UUID, I64, I64, TEXTS],
        columns: &[BOOL],
        run: |db, given, rows| {
            let keys: Vec<String> = given.get(4);
            rows.only(&[&db.release(given.owner(), &keys)?])
        },
    },
    Statement {
        sql: "SELECT set_config('synchronous_commit', 'off', true), acknowledge_2($1, $2, $3)",
        parameters: &[UUID, I64S, TEXTS],
        columns: &[TEXT, VOID],
        run: |db, given, rows| {
            let tickets: Vec<i64> = given.get(2);
            db.acknowledge(given.get(1), &tickets, given.get(3));
            rows.only(&[&"off", &NOTHING])
        },
    },
    Statement {
        sql: "SELECT write_1($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        parameters: &[UUID, I64, I32, I64, TEXTS, UUIDS, I64S, BYTES_LIST, TEXTS],
        columns: &[TEXT],
        run: |db, given, rows| {
            let (owner, writer) = ((given.get(1), given.get(2)), (given.get(3), given.get(4)));
            rows.only(&[&db.write(owner, writer, given.writes())?])
        },
    },
    Statement {
        sql: "SELECT forget_1($1, $2, $3, $4)",
        parameters: &[UUID, I64, I64, I64],
        columns: &[BOOL],
        run: |db, given, rows| {
            let forgotten = db.forget(given.get(1), given.get(2), given.get(3), given.get(4));
            rows.only(&[&forgotten])
        },
    },
    Statement {
        sql: "SELECT owner, ticket, released, ARRAY(SELECT ticket FROM owed WHERE member = $1 ORDER BY ticket), ARRAY(SELECT id FROM instance ORDER BY id), ARRAY(SELECT beat FROM instance ORDER BY id), id FROM log",
        parameters: &[UUID],
        columns: &[UUID, I64, I64, I64S, UUIDS, I64S, UUID],
        run: |db, given, rows| {
            let me: Uuid = given.get(1);
            let owed = db.owed.iter().filter(|(_, member)| *member == me);
            let owed: Vec<i64> = owed.map(|(ticket, _)| *ticket).collect();
            let (ids, beats) = db.beats();
            let id = Uuid::from_u128(1);
            rows.only(&[
                &db.owner,
                &db.ticket,
                &db.released,
                &owed,
                &ids,
                &beats,
                &id,
            ])
        },
    },
    Statement {
        sql: "SELECT key, names, ticket FROM guard WHERE ticket > $1",
        parameters: &[I64],
        columns: &[TEXT, BOOL, I64],
        run: |db, given, rows| {
            let after: i64 = given.get(1);
            let guards = db.guards.iter().filter(|(_, (ticket, _))| *ticket > after);
            guards.for_each(|(key, (ticket, names))| rows.add(&[key, names, ticket]));
            Ok(())
        },
    },
    Statement {
        sql: "SELECT key, names FROM guard WHERE ticket >= $1",
        parameters: &[I64],
        columns: &[TEXT, BOOL],
        run: |db, given, rows| {
            let from: i64 = given.get(1);
            let guards = db.guards.iter().filter(|(_, (ticket, _))| *ticket >= from);
            guards.for_each(|(key, (_, names))| rows.add(&[key, names]));
            Ok(())
        },
    },
    Statement {
        sql: "SELECT key FROM guard",
        parameters: &[],
        columns: &[TEXT],
        run: |db, _, rows| {
            db.guards.keys().for_each(|key| rows.add(&[key]));
            Ok(())
        },
    },
    Statement {
        sql: "SELECT DISTINCT ticket FROM owed WHERE ticket = ANY ($1)",
        parameters: &[I64S],
        columns: &[I64],
        run: |db, given, rows| {
            let mut tickets: Vec<i64> = given.get(1);
            tickets.sort_unstable();
            tickets.dedup();
            let is_owed = |one: &i64| db.owed.iter().any(|(ticket, _)| ticket == one);
            let owed = tickets.iter().filter(|one| is_owed(one));
            owed.for_each(|ticket| rows.add(&[ticket]));
            Ok(())
        },
    },
    Statement {
        sql: "INSERT INTO stray (key) VALUES ($1) ON CONFLICT DO NOTHING RETURNING key",
        parameters: &[TEXT],
        columns: &[TEXT],
        run: |db, given, rows| {
            let key: String = given.get(1);
            if db.strays.insert(key.clone()) {
                rows.add(&[&key]);
            }
            Ok(())
        },
    },
    Statement {
        sql: "DELETE FROM stray WHERE key = ANY ($1) RETURNING key",
        parameters: &[TEXTS],
        columns: &[TEXT],
        run: |db, given, rows| {
            let keys: Vec<String> = given.get(1);
            let gone = db.strays.extract_if(.., |key| keys.contains(key));
            gone.for_each(|key| rows.add(&[&key]));
            Ok(())
        },
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b WHERE b.id = $1",
        parameters: &[UUID],
        columns: BATCH,
        run: |db, given, rows| {
            let id: Uuid = given.get(1);
            batches(
                db,
                db.batches.contains_key(&id).then_some(id).into_iter(),
                rows,
            )
        },
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b WHERE b.key = $1 ORDER BY b.id DESC LIMIT 1",
        parameters: &[TEXT],
        columns: BATCH,
        run: |db, given, rows| {
            let key: Option<String> = Some(given.get(1));
            let found = db.batches.iter().rev().find(|(_, batch)| batch.key == key);
            batches(db, found.map(|(id, _)| *id).into_iter(), rows)
        },
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b WHERE b.ended IS NULL AND b.id > $1 ORDER BY b.id LIMIT $2",
        parameters: &[UUID, I64],
        columns: BATCH,
        run: |db, given, rows| page(db, given, rows, |batch| batch.ended.is_none()),
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b ORDER BY b.id DESC LIMIT 1",
        parameters: &[],
        columns: BATCH,
        run: |db, _, rows| batches(db, db.batches.keys().next_back().copied().into_iter(), rows),
    },
    Statement {
        sql: "SELECT b.id, b.intent, b.body, b.ended, ARRAY(SELECT said FROM resolution WHERE batch = b.id ORDER BY n), ARRAY(SELECT settled FROM entry WHERE batch = b.id AND settled IS NOT NULL ORDER BY n) FROM batch b WHERE b.id > $1 ORDER BY b.id LIMIT $2",
        parameters: &[UUID, I64],
        columns: BATCH,
        run: |db, given, rows| page(db, given, rows, |_| true),
    },
];
