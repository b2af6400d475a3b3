//! The simulated server of the simulation and a real one give the same answers to the same calls, so that what the
//! simulation proves holds for a real server.

use tokio::io::{AsyncWriteExt as _, split};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Row};
use uuid::Uuid;

use crate::house::installed;
use crate::postgres::Postgres;
use crate::random::Random;
use crate::simulated_postgres::{
    Asked, Database, STATEMENTS, Session, Statement, notification, read,
};

const CALLS: u64 = 2000;
const SEEDS: u64 = 2;
const SCHEMA: &str = "simulated";

/// Connects to the simulated server.
async fn simulated() -> Client {
    let (near, far) = tokio::io::duplex(1 << 20);
    tokio::spawn(async move {
        let (mut from, mut to) = split(far);
        let (mut session, mut db) = (Session::default(), Database::default());
        while let Ok(asked) = read(&mut session, &mut from).await {
            if matches!(asked, Asked::Terminate) {
                return;
            }
            let mut answer = session.answer(&mut db, asked, |_, _| {}, 1000);
            db.changed.clear();
            if std::mem::take(&mut db.notifies) && session.listens {
                answer.extend(notification());
            }
            to.write_all(&answer).await.unwrap();
        }
    });
    let mut config = tokio_postgres::Config::new();
    config.user("nsgate").dbname("nsgate");
    let (client, connection) = config.connect_raw(near, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Connects to a real server.
async fn real(server: &Postgres) -> Client {
    let config: tokio_postgres::Config = server.socket().parse().unwrap();
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let sql = format!("SET search_path = {SCHEMA}");
    client.batch_execute(&sql).await.unwrap();
    client
}

/// The arguments that calls choose from, so that they meet.
struct Choice {
    random: Random,
    ids: Vec<Uuid>,
    batches: Vec<Uuid>,
    tried: i64,
    /// The gateways and their heartbeats, and the owner with its fence, as the last look has shown them.
    beats: Vec<(Uuid, i64)>,
    owner: Option<Uuid>,
    fence: i64,
    ticket: i64,
}

type Value = Box<dyn ToSql + Sync>;

impl Choice {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed, 1),
            ids: (1..=4).map(Uuid::from_u128).collect(),
            batches: (1..=12)
                .map(|number| Uuid::from_u128(number << 64))
                .collect(),
            tried: 0,
            beats: Vec::new(),
            owner: None,
            fence: 0,
            ticket: 0,
        }
    }

    fn some<T: Clone>(&mut self, from: &[T], most: u64) -> Vec<T> {
        let count = usize::try_from(self.random.between(0, most)).unwrap();
        self.random.some(from, count)
    }

    fn key(&mut self) -> String {
        let (address, table) = (self.random.below(2), self.random.below(4));
        format!("http://c{address}\u{1f}t{table}")
    }

    /// Returns the owner, or mostly so.
    fn me(&mut self) -> Uuid {
        let owner = self.owner.filter(|_| self.random.chance(85));
        owner.unwrap_or_else(|| *self.random.pick(&self.ids))
    }

    fn fence(&mut self) -> i64 {
        self.fence - i64::from(self.random.chance(10))
    }

    fn number(&mut self) -> i64 {
        // Some calls arrive late.
        self.tried += i64::try_from(self.random.below(3)).unwrap();
        self.tried - i64::from(self.random.chance(10))
    }

    fn dead(&mut self) -> (Vec<Uuid>, Vec<i64>) {
        let seen = self.beats.clone();
        let dead = self.some(&seen, 2);
        let late = i64::from(self.random.chance(30));
        dead.into_iter().map(|(id, beat)| (id, beat - late)).unzip()
    }

    fn keys(&mut self, most: u64) -> Vec<String> {
        let count = self.random.between(0, most);
        let mut keys: Vec<String> = (0..count).map(|_| self.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the arguments of a call.
    fn arguments(&mut self, statement: &Statement) -> Vec<Value> {
        let name = statement.sql.trim_start_matches("SELECT ");
        let name = name.split('(').next().unwrap();
        match name {
            "take_2" | "join_2" => {
                let id = *self.random.pick(&self.ids);
                let (ids, beats) = self.dead();
                // The last one uses the log alone.
                let shares = id != self.ids[3];
                let address = shares.then(|| format!("{id}:1"));
                vec![
                    Box::new(id),
                    Box::new(format!("gateway {id}")),
                    Box::new("1"),
                    Box::new(5000_i64),
                    Box::new(address),
                    Box::new(shares.then_some("token")),
                    Box::new(ids),
                    Box::new(beats),
                ]
            }
            "leave_1" => vec![Box::new(*self.random.pick(&self.ids))],
            "expire_2" => {
                let (me, fence, (ids, beats)) = (self.me(), self.fence(), self.dead());
                vec![
                    Box::new(me),
                    Box::new(fence),
                    Box::new(ids),
                    Box::new(beats),
                ]
            }
            "claim_3" | "replace_2" => {
                let (me, fence, number) = (self.me(), self.fence(), self.number());
                let keys = self.keys(3);
                let place = |_| i64::try_from(self.random.between(1, 3)).unwrap();
                let places: Vec<i64> = keys.iter().map(place).collect();
                let names: Vec<bool> = keys.iter().map(|_| self.random.chance(30)).collect();
                let mut given: Vec<Value> = vec![
                    Box::new(me),
                    Box::new(fence),
                    Box::new(number),
                    Box::new(keys),
                    Box::new(names),
                ];
                given.push(match name {
                    "replace_2" => Box::new(self.some(&["http://c0", "http://c1"], 2)),
                    _ => Box::new(places),
                });
                given
            }
            "release_2" => {
                let (me, fence, number) = (self.me(), self.fence(), self.number());
                let keys = self.keys(3);
                vec![
                    Box::new(me),
                    Box::new(fence),
                    Box::new(number),
                    Box::new(keys),
                ]
            }
            "set_config" => {
                let id = *self.random.pick(&self.ids);
                let tickets: Vec<i64> = (1..=self.ticket).rev().take(4).collect();
                let (tickets, keys) = (self.some(&tickets, 4), self.keys(2));
                vec![Box::new(id), Box::new(tickets), Box::new(keys)]
            }
            "write_1" => self.writes(),
            "forget_1" => {
                let (me, fence) = (self.me(), self.fence());
                let before = i64::try_from(self.random.below(40)).unwrap();
                let most = i64::try_from(self.random.between(1, 3)).unwrap();
                vec![
                    Box::new(me),
                    Box::new(fence),
                    Box::new(before),
                    Box::new(most),
                ]
            }
            _ if name.starts_with("INSERT INTO stray") => vec![Box::new(self.key())],
            _ => self.of_types(statement),
        }
    }

    fn writes(&mut self) -> Vec<Value> {
        let (me, fence, number) = (self.me(), self.fence(), self.number());
        let writer = i32::try_from(self.random.below(2)).unwrap();
        let (mut kinds, mut ids, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut lines, mut keys) = (Vec::new(), Vec::new());
        for _ in 0..self.random.between(1, 5) {
            let kind = *self
                .random
                .pick(&["i", "i", "c", "a", "n", "s", "r", "e", "w"]);
            let has_number = matches!(kind, "n" | "s" | "e");
            let has_line = matches!(kind, "i" | "c" | "a" | "n" | "r");
            let said = self.random.below(40);
            kinds.push(kind);
            ids.push(*self.random.pick(&self.batches));
            let most = if kind == "e" { 40 } else { 3 };
            let number = i64::try_from(self.random.below(most)).unwrap();
            numbers.push(has_number.then_some(number));
            lines.push(has_line.then(|| format!("{kind}{}", said % 4).into_bytes()));
            keys.push((kind == "i" && said.is_multiple_of(2)).then(|| format!("key {}", said % 3)));
        }
        vec![
            Box::new(me),
            Box::new(fence),
            Box::new(writer),
            Box::new(number),
            Box::new(kinds),
            Box::new(ids),
            Box::new(numbers),
            Box::new(lines),
            Box::new(keys),
        ]
    }

    /// Returns arguments for a statement that only reads, or that removes strays.
    fn of_types(&mut self, statement: &Statement) -> Vec<Value> {
        let is_page = statement.sql.ends_with("LIMIT $2");
        let parameters = statement.parameters.iter().enumerate();
        let value = |(place, oid): (usize, &u32)| -> Value {
            match Type::from_oid(*oid).unwrap() {
                Type::UUID if statement.sql.contains("batch b") => {
                    Box::new(*self.random.pick(&self.batches))
                }
                Type::UUID => Box::new(*self.random.pick(&self.ids)),
                Type::TEXT => Box::new(format!("key {}", self.random.below(3))),
                Type::INT8 if is_page && place == 1 => Box::new(4_i64),
                Type::INT8 => {
                    let back = i64::try_from(self.random.below(4)).unwrap();
                    Box::new((self.ticket - back).max(0))
                }
                Type::INT8_ARRAY => {
                    let tickets: Vec<i64> = (1..=self.ticket).rev().take(6).collect();
                    Box::new(self.some(&tickets, 4))
                }
                Type::TEXT_ARRAY => Box::new(self.keys(3)),
                other => panic!("no argument of type {other}"),
            }
        };
        parameters.map(value).collect()
    }

    /// Learns what a look has shown.
    fn saw(&mut self, sql: &str, rows: &[Row]) {
        let fence: Option<i64> = match rows.first() {
            Some(row) if sql.contains("take_2") => row.get(0),
            _ => None,
        };
        self.fence = fence.unwrap_or(self.fence);
        if sql.contains("SELECT l.format") {
            self.owner = rows[0].get(2);
            let seen = |row: &Row| Some((row.get::<_, Option<Uuid>>(5)?, row.get(7)));
            self.beats = rows.iter().filter_map(seen).collect();
        }
        if sql.starts_with("SELECT owner, ticket") {
            self.ticket = rows[0].get(1);
        }
    }
}

/// Returns an answer in one spelling. Rows have no order unless the statement gives them one.
fn spelled(answer: &Result<Vec<Row>, tokio_postgres::Error>) -> Result<Vec<String>, String> {
    let rows = match answer {
        Ok(rows) => rows,
        Err(error) => return Err(error.code().expect("an answer").code().to_owned()),
    };
    let cell = |row: &Row, place: usize| match *row.columns()[place].type_() {
        Type::BOOL => format!("{:?}", row.get::<_, Option<bool>>(place)),
        Type::BYTEA => format!("{:?}", row.get::<_, Option<Vec<u8>>>(place)),
        Type::BYTEA_ARRAY => format!("{:?}", row.get::<_, Option<Vec<Vec<u8>>>>(place)),
        Type::INT4 => format!("{:?}", row.get::<_, Option<i32>>(place)),
        Type::INT8 => format!("{:?}", row.get::<_, Option<i64>>(place)),
        Type::INT8_ARRAY => format!("{:?}", row.get::<_, Option<Vec<i64>>>(place)),
        Type::TEXT => format!("{:?}", row.get::<_, Option<String>>(place)),
        Type::UUID => format!("{:?}", row.get::<_, Option<Uuid>>(place)),
        Type::UUID_ARRAY => {
            let mut ids: Option<Vec<Uuid>> = row.get(place);
            ids.iter_mut().for_each(|ids| ids.sort_unstable());
            format!("{ids:?}")
        }
        Type::VOID => String::new(),
        ref other => panic!("no column of type {other}"),
    };
    let version = |row: &Row| row.columns().len() > 12;
    let row = |row: &Row| {
        // The server's version differs.
        let places = (0..row.columns().len()).filter(|place| !(version(row) && *place == 3));
        places
            .map(|place| cell(row, place))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut rows: Vec<String> = rows.iter().map(row).collect();
    rows.sort_unstable();
    Ok(rows)
}

async fn asked(
    client: &Client,
    sql: &str,
    given: &[Value],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let given: Vec<&(dyn ToSql + Sync)> = given.iter().map(AsRef::as_ref).collect();
    client.query(sql, &given).await
}

#[tokio::test]
async fn the_simulated_server_answers_as_a_real_one() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut met = vec![0_u64; STATEMENTS.len()];
    let mut raised = 0;
    for seed in 0..SEEDS {
        installed(&server, SCHEMA).await;
        // The id of a log is random.
        let id = Uuid::from_u128(1);
        server.sql(&format!("UPDATE {SCHEMA}.log SET id = '{id}'"));
        let (real, simulated) = (real(&server).await, simulated().await);
        let mut choice = Choice::new(seed);
        for call in 0..CALLS {
            // A look every few calls, so that the arguments fit.
            let place = match call % 4 {
                0 => 0,
                _ => usize::try_from(choice.random.below(STATEMENTS.len() as u64)).unwrap(),
            };
            let statement = &STATEMENTS[place];
            let is_rare = statement.sql.contains("leave_1") && !choice.random.chance(20);
            if is_rare {
                continue;
            }
            let given = choice.arguments(statement);
            let answers = (
                asked(&real, statement.sql, &given).await,
                asked(&simulated, statement.sql, &given).await,
            );
            let spelled = (spelled(&answers.0), spelled(&answers.1));
            assert_eq!(
                spelled.0, spelled.1,
                "seed {seed}, call {call}: {} with {given:?}",
                statement.sql
            );
            met[place] += 1;
            raised += u64::from(spelled.0.is_err());
            if let Ok(rows) = &answers.0 {
                choice.saw(statement.sql, rows);
            }
        }
        server.sql(&format!("DROP SCHEMA {SCHEMA} CASCADE"));
    }
    assert!(met.iter().all(|times| *times > 10), "{met:?}");
    assert!(raised > 20, "{raised} late calls");
}
