//! The clients of a soak: each kind asks at its share of the rate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::MissedTickBehavior;

use crate::World;
use crate::connection::{Connection, Message};

use crate::site::Site;
use crate::tally::Ending;

/// The number of tables that are described and listed, in each catalog.
pub const TABLES: usize = 100;
/// The versions of each of them.
pub const VERSIONS: u64 = 100;
/// The most clients of one kind.
pub const CLIENTS: usize = 64;
/// The tokens that are shown again and again, by clients of `Kind::Token`.
const TOKENS: usize = 20_000;
/// The time between two requests of an idle connection.
const IDLE: Duration = Duration::from_secs(45);
/// The time after which a client gets itself a new token.
const RENEWAL: Duration = Duration::from_secs(90);

/// A kind of client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Describes over one connection with one token.
    Describe,
    /// Describes with one of many tokens.
    Token,
    /// Describes with a token that nobody has seen.
    NewToken,
    /// A listing of tables or namespaces, of one catalog or of all.
    Listing,
    /// A list of versions.
    Versions,
    /// An upload that streams.
    Upload,
    /// A token that is expired, forged or missing.
    BadToken,
    /// A namespace that is not mounted.
    Unknown,
    /// A connection for each request.
    Connection,
    /// Describes over HTTP/2.
    Http2,
    /// A batch over all catalogs.
    Batch,
    /// A client that leaves before its answer.
    Leaving,
    /// A connection that is idle nearly always.
    Idle,
}

impl Kind {
    /// The kinds that have a share of the rate, in percent.
    pub const SHARES: [(Self, u32); 12] = [
        (Self::Describe, 45),
        (Self::Token, 15),
        (Self::NewToken, 8),
        (Self::Listing, 4),
        (Self::Versions, 8),
        (Self::Upload, 2),
        (Self::BadToken, 5),
        (Self::Unknown, 2),
        (Self::Connection, 5),
        (Self::Http2, 3),
        (Self::Batch, 2),
        (Self::Leaving, 1),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Token => "one of many tokens",
            Self::NewToken => "new token",
            Self::Listing => "listing",
            Self::Versions => "versions",
            Self::Upload => "upload",
            Self::BadToken => "bad token",
            Self::Unknown => "unknown mount",
            Self::Connection => "new connection",
            Self::Http2 => "HTTP/2",
            Self::Batch => "batch",
            Self::Leaving => "leaving",
            Self::Idle => "idle",
        }
    }

    fn expected(self) -> u16 {
        match self {
            Self::BadToken => 401,
            Self::Unknown => 404,
            _ => 200,
        }
    }
}

/// One client.
pub struct Client {
    world: Arc<World>,
    kind: Kind,
    number: usize,
    connection: Option<Connection>,
    bearer: (String, Instant),
}

impl Client {
    pub fn new(world: &Arc<World>, kind: Kind, number: usize) -> Self {
        let bearer = world.issuer.bearer(&format!("client{number}"));
        Self {
            world: Arc::clone(world),
            kind,
            number,
            connection: None,
            bearer: (bearer, Instant::now()),
        }
    }

    /// Sends requests for ever at this interval.
    pub async fn run(mut self, every: Duration) {
        // Clients of one kind begin one after the other.
        tokio::time::sleep(every.mul_f64(fastrand::f64())).await;
        let mut turns = tokio::time::interval(every);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            let ending = self.once().await;
            self.world.tally.add(self.kind, ending);
        }
    }

    pub async fn run_idle(self) {
        self.run(IDLE).await;
    }

    async fn once(&mut self) -> Ending {
        if self.bearer.1.elapsed() > RENEWAL {
            let bearer = self.world.issuer.bearer(&format!("client{}", self.number));
            self.bearer = (bearer, Instant::now());
        }
        let began = Instant::now();
        let world = Arc::clone(&self.world);
        let site = fastrand::usize(..world.sites.len());
        let (message, sites) = self.message(&world, site);
        let answered = self.send(message).await;
        let took = began.elapsed();
        let error = match answered {
            Ok(None) => return Ending::Good(took),
            Ok(Some((status, _))) if status == self.kind.expected() => return Ending::Good(took),
            Ok(Some((status, body))) => format!("{status} {body}"),
            Err(error) => {
                self.connection = None;
                error
            }
        };
        if sites.iter().any(|site| site.is_troubled(began)) {
            Ending::Explained(error)
        } else {
            Ending::Unexplained(error)
        }
    }

    /// Returns the answer's status and the beginning of its body; nothing if the client left.
    async fn send(&mut self, message: Message) -> Result<Option<(u16, String)>, String> {
        let address = self.world.gateway.address;
        if self.kind == Kind::Connection
            || self.connection.as_ref().is_none_or(Connection::is_closed)
        {
            self.connection = Some(match self.kind {
                Kind::Http2 => Connection::open_http2(address).await?,
                _ => Connection::open(address).await?,
            });
        }
        let Some(connection) = &mut self.connection else {
            return Err("no connection".to_owned());
        };
        if self.kind == Kind::Leaving {
            let moment = Duration::from_micros(fastrand::u64(..2000));
            let _ = tokio::time::timeout(moment, connection.send(message)).await;
            self.connection = None;
            return Ok(None);
        }
        let (status, body) = connection.send(message).await?;
        let body = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
        Ok(Some((status.as_u16(), body)))
    }

    /// Returns a request, and the catalogs that it needs.
    fn message<'w>(&self, world: &'w World, site: usize) -> (Message, &'w [Arc<Site>]) {
        let all = &world.sites[..];
        let (own, one) = (&self.bearer.0, &all[site..=site]);
        let name = &all[site].name;
        let issuer = &world.issuer;
        let message = match self.kind {
            Kind::Token => describe(name, &world.token()),
            Kind::NewToken => {
                let subject = format!("person{}", fastrand::u32(..));
                describe(name, &issuer.bearer(&subject))
            }
            Kind::Listing => {
                return match fastrand::u8(..4) {
                    0 => (Message::get("/v1/table?limit=50".to_owned(), own), all),
                    1 => (Message::get(format!("/v1/namespace/{name}/list"), own), one),
                    _ => {
                        let target = format!("/v1/namespace/{name}/table/list?limit=50");
                        (Message::get(target, own), one)
                    }
                };
            }
            Kind::Versions => {
                let target = format!("/v1/table/{name}%24{}/version/list", table());
                Message::post(target, own, "")
            }
            Kind::Upload => {
                let target = format!("/v1/table/{name}%24{}/insert?mode=append", table());
                Message::upload(target, own, fastrand::usize(1..64))
            }
            Kind::BadToken => match fastrand::u8(..3) {
                0 => describe(name, ""),
                1 => describe(name, &issuer.expired("late")),
                _ => {
                    let (text, _) = own.split_at(own.len() - 4);
                    describe(name, &format!("{text}AAAA"))
                }
            },
            Kind::Unknown => describe("nowhere", own),
            Kind::Batch => {
                let table = batched(self.number);
                let latest = all.iter().map(|site| site.catalog.latest(&table));
                let body = batch(all, &table, 1 + latest.max().unwrap_or(1));
                let target = "/v1/table/version/batch-create".to_owned();
                return (Message::post(target, own, body), all);
            }
            _ if site.is_multiple_of(2) => describe(name, own),
            _ => describe(&format!("same%24{name}"), own),
        };
        (message, one)
    }
}

/// Returns the name of the table that is in the batches of this client.
pub fn batched(client: usize) -> String {
    format!("batched{client}")
}

fn describe(mount: &str, bearer: &str) -> Message {
    let target = format!("/v1/table/{mount}%24{}/describe", table());
    Message::post(target, bearer, "{}")
}

fn table() -> String {
    format!("t{:03}", fastrand::usize(..TABLES))
}

/// Tokens that are shown again and again, each of them replaced before it expires.
pub struct Wallet(Vec<std::sync::Mutex<Option<Shown>>>);

/// A token, and the time at which it was signed.
type Shown = (Arc<str>, Instant);

impl Wallet {
    pub fn new() -> Self {
        Self((0..TOKENS).map(|_| Default::default()).collect())
    }

    /// Returns one of the tokens; a few of them are shown most of the time.
    pub fn pick(&self, sign: impl FnOnce(usize) -> String) -> Arc<str> {
        let at = (fastrand::f64().powi(3) * TOKENS as f64) as usize;
        let mut place = self.0[at].lock().unwrap();
        match &*place {
            Some((token, since)) if since.elapsed() < RENEWAL => Arc::clone(token),
            _ => {
                let token: Arc<str> = sign(at).into();
                *place = Some((Arc::clone(&token), Instant::now()));
                token
            }
        }
    }
}

/// Returns the body of a batch that creates this version of a table in each catalog.
fn batch(sites: &[Arc<Site>], table: &str, version: u64) -> String {
    let entries = sites.iter().map(|site| {
        let id = [&site.name, table];
        json!({"id": id, "version": version, "manifest_path": format!("staged/{version}"), "manifest_size": 1000 + version})
    });
    json!({ "entries": entries.collect::<Vec<_>>() }).to_string()
}
