//! The servers of the shared log, and the network to them. One is the primary; the other has all that was committed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use nsgate::batch::log::postgres::Stream;
use nsgate::batch::log::{BatchId, reread};
use tokio::io::{AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use crate::environment::{Inner, World};
use crate::simulated_postgres::{
    Arguments, Asked, Database, Session, Statement, notification, read,
};

/// The bytes of a connection that are under way at most.
const PIPE: usize = 1 << 20;
/// The longest time for which a gateway waits for an answer that never comes. Its lease may end meanwhile.
const GIVES_UP: Duration = Duration::from_secs(10);
/// The longest delay of a request or an answer, in milliseconds.
const LATEST: u64 = 15_000;

/// The servers, and the content of the log.
pub struct Store {
    pub db: Database,
    servers: [Server; 2],
    /// The connections that are told of notifications.
    listeners: Vec<(u64, mpsc::UnboundedSender<BytesMut>)>,
    connections: u64,
    /// The number of requests so far, and when the last one so far is answered or given up.
    pub requests: u64,
    pub answered: Duration,
    /// The fence of the last owner that was seen.
    fence: i64,
}

/// A server of the log.
struct Server {
    state: State,
    /// The number of its starts.
    starts: u64,
    /// Told to its connections when it ends, or is no primary any more.
    ended: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Primary,
    Standby,
    Down,
    /// A server that accepts connections, and answers nothing.
    Hung,
}

/// The fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks, and the request is not carried out.
    ResetBefore,
    /// The connection breaks, and the request was carried out.
    ResetAfter,
    /// The request is carried out, and never answered.
    Silent,
    /// A request that is never carried out, and never answered.
    Ignored,
    /// The request arrives late.
    LateThere,
    /// The request is carried out in time, and answered late.
    LateBack,
}

impl Fault {
    pub const ALL: [Self; 6] = [
        Self::ResetBefore,
        Self::ResetAfter,
        Self::Silent,
        Self::Ignored,
        Self::LateThere,
        Self::LateBack,
    ];
}

/// One connection of a gateway.
struct Connection {
    world: Arc<World>,
    gateway: usize,
    life: u64,
    server: usize,
    number: u64,
    start: u64,
    session: Session,
    out: mpsc::UnboundedSender<BytesMut>,
}

impl Default for Store {
    fn default() -> Self {
        let server = |state| Server {
            state,
            starts: 0,
            ended: Arc::default(),
        };
        Self {
            db: Database::default(),
            servers: [server(State::Primary), server(State::Standby)],
            listeners: Vec::new(),
            connections: 0,
            requests: 0,
            answered: Duration::ZERO,
            fence: 0,
        }
    }
}

/// Connects a gateway to a server.
pub async fn dial(
    world: &Arc<World>,
    gateway: usize,
    life: u64,
    server: usize,
) -> io::Result<Box<dyn Stream>> {
    world.if_alive(life).await;
    let travel = world.lock().travel(world);
    sleep(travel).await;
    super::while_cut(|| world.lock().troubles.cut_from_store(gateway)).await;
    let inner = &mut *world.lock();
    let store = &mut inner.store;
    let refused = |words: &str| Err(io::Error::other(words.to_owned()));
    match store.servers[server].state {
        State::Primary | State::Hung => {}
        State::Standby => return refused("the server is a standby"),
        State::Down => return refused("connection refused"),
    }
    store.connections += 1;
    let (near, far) = duplex(PIPE);
    let (from, to) = split(far);
    let (out, answers) = mpsc::unbounded_channel();
    let ended = Arc::clone(&store.servers[server].ended);
    let connection = Connection {
        world: Arc::clone(world),
        gateway,
        life,
        server,
        number: store.connections,
        start: store.servers[server].starts,
        session: Session::default(),
        out,
    };
    tokio::spawn(write_all(Arc::clone(world), gateway, life, to, answers));
    tokio::spawn(connection.serve(from, ended));
    Ok(Box::new(near))
}

/// Brings answers to a gateway.
async fn write_all(
    world: Arc<World>,
    gateway: usize,
    life: u64,
    mut to: WriteHalf<DuplexStream>,
    mut answers: mpsc::UnboundedReceiver<BytesMut>,
) {
    while let Some(answer) = answers.recv().await {
        super::while_cut(|| world.lock().troubles.cut_from_store(gateway)).await;
        world.if_alive(life).await;
        if to.write_all(&answer).await.is_err() {
            return;
        }
    }
}

impl Connection {
    async fn serve(mut self, mut from: ReadHalf<DuplexStream>, ended: Arc<Notify>) {
        tokio::select! {
            biased;
            () = ended.notified() => {}
            () = self.answer_all(&mut from) => {}
        }
        let number = self.number;
        let store = &mut self.world.lock().store;
        store.listeners.retain(|(of, _)| *of != number);
    }

    async fn answer_all(&mut self, from: &mut ReadHalf<DuplexStream>) {
        let world = Arc::clone(&self.world);
        while let Ok(asked) = read(&mut self.session, from).await {
            if matches!(asked, Asked::Terminate) {
                return;
            }
            world.if_alive(self.life).await;
            let (fault, there, back) = world.lock().fate(&world);
            sleep(there).await;
            super::while_cut(|| world.lock().troubles.cut_from_store(self.gateway)).await;
            if fault == Some(Fault::ResetBefore) {
                return;
            }
            if fault == Some(Fault::Ignored) || self.is_hung() {
                continue;
            }
            let (answer, is_change) = self.carry_out(asked);
            if is_change {
                world.point(self.life, "the log was changed");
            }
            sleep(back).await;
            match fault {
                Some(Fault::ResetAfter) => return,
                Some(Fault::Silent) => continue,
                _ => {}
            }
            if !self.is_hung() {
                // Nobody may wait for it any more.
                let _ = self.out.send(answer);
            }
        }
    }

    /// True if the server does not answer on this connection any more.
    fn is_hung(&self) -> bool {
        let server = &self.world.lock().store.servers[self.server];
        server.state != State::Primary || server.starts != self.start
    }

    /// Carries out a request, at one moment.
    fn carry_out(&mut self, asked: Asked) -> (BytesMut, bool) {
        let world = &self.world;
        let (pace, nominal) = {
            let plan = world.plan();
            (i64::from(plan.paces[self.gateway]), plan.lease)
        };
        let nominal = i64::try_from(nominal.as_millis()).expect("a short time");
        // The lease of this gateway by a clock that is right, and those of others by its own clock.
        let arguments = |statement: &Statement, given: &mut Arguments| {
            if statement.sql.starts_with("SELECT take_2")
                || statement.sql.starts_with("SELECT join_2")
            {
                given.set(4, &nominal);
            }
        };
        let inner = &mut *world.lock();
        let listened = self.session.listens;
        let answer = self
            .session
            .answer(&mut inner.store.db, asked, arguments, pace);
        if self.session.listens && !listened {
            inner.store.listeners.push((self.number, self.out.clone()));
        }
        let is_change = inner.carried_out(world, self.gateway);
        (answer, is_change)
    }
}

impl Inner {
    fn travel(&mut self, world: &World) -> Duration {
        let (least, most) = world.plan().travels;
        self.random.millis(least, most)
    }

    /// Returns the fault of the next request, and its times there and back.
    fn fate(&mut self, world: &World) -> (Option<Fault>, Duration, Duration) {
        let (mut there, mut back) = (self.travel(world), self.travel(world));
        self.store.requests += 1;
        let plan = world.plan();
        let met = if world.is_rough() && self.random.chance(plan.store_faults) {
            let late = self.random.millis(1, LATEST);
            Some((*self.random.pick(&Fault::ALL), late))
        } else {
            plan.store_fault(self.store.requests)
        };
        let number = self.store.requests;
        if let Some((fault, late)) = met {
            let counts = &mut self.history.counts;
            counts.add("fault: at the server of the log", 1);
            world.trace(self, || {
                format!("request {number} to the log   ** {fault:?}")
            });
            match fault {
                Fault::LateThere => there += late,
                Fault::LateBack => back += late,
                _ => {}
            }
        }
        let missed = match met {
            Some((Fault::Silent | Fault::Ignored, _)) => GIVES_UP,
            _ => Duration::ZERO,
        };
        let answered = world.elapsed() + there + back + missed;
        self.store.answered = self.store.answered.max(answered);
        (met.map(|(fault, _)| fault), there, back)
    }

    /// Learns what a call has changed. Returns true if that is anything but a heartbeat.
    fn carried_out(&mut self, world: &World, gateway: usize) -> bool {
        let is_change = !self.store.db.changed.is_empty() || self.store.db.notifies;
        for id in std::mem::take(&mut self.store.db.changed) {
            self.learn(id);
        }
        if std::mem::take(&mut self.store.db.notifies) {
            for (_, listener) in &self.store.listeners {
                // A connection that has ended is removed by itself.
                let _ = listener.send(notification());
            }
        }
        if self.store.fence != self.store.db.fence {
            self.store.fence = self.store.db.fence;
            self.history.counts.add("takeovers", 1);
            // As a crash of the only gateway: the next owner does not know what the last one knew.
            self.history.counts.add("crashes of the gateway", 1);
            world.trace(self, || format!("g{gateway} takes the log"));
        }
        is_change
    }

    fn learn(&mut self, id: BatchId) {
        let lines = self.store.db.lines(id);
        let record = lines.map(|lines| {
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            let read = reread(&lines).map(|(mut record, _)| {
                record.id = id;
                record
            });
            read.map_err(|cause| format!("the log cannot be read: {cause}"))
        });
        match record.transpose() {
            Err(wrong) => self.wrong.push(wrong),
            Ok(record) => {
                if self.ledger.learn(id, record) {
                    self.durable(id);
                }
            }
        }
    }
}

impl World {
    fn set_store(&self, server: usize, state: State, ends: bool) {
        let inner = &mut *self.lock();
        let place = &mut inner.store.servers[server];
        place.state = state;
        if ends {
            place.starts += 1;
            place.ended.notify_waiters();
        }
        self.trace(inner, || format!("server {server} is {state:?}"));
    }

    fn primary(&self) -> Option<usize> {
        let servers = &self.lock().store.servers;
        servers
            .iter()
            .position(|server| server.state == State::Primary)
    }

    /// Crashes the primary; `None` if there is none. Requests that were not carried out are lost.
    pub fn crash_store(&self) -> Option<usize> {
        let server = self.primary()?;
        self.lock()
            .history
            .counts
            .add("restarts of the log's server", 1);
        self.set_store(server, State::Down, true);
        Some(server)
    }

    pub fn start_store(&self, server: usize) {
        self.set_store(server, State::Primary, false);
    }

    /// Hangs the primary; `None` if there is none.
    pub fn hang_store(&self) -> Option<usize> {
        let server = self.primary()?;
        self.lock().history.counts.add("failovers", 1);
        self.set_store(server, State::Hung, false);
        Some(server)
    }

    pub fn promote_other(&self, server: usize) {
        self.set_store(1 - server, State::Primary, true);
    }

    /// Ends a server that hung. It becomes the standby.
    pub fn end_hang(&self, server: usize) {
        if self.lock().store.servers[server].state == State::Hung {
            self.set_store(server, State::Standby, true);
        }
    }
}
