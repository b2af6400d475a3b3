//! The network between the gateway and the catalogs. Messages take time. If the scenario says so, they are lost, late,
//! doubled or cut off, and catalogs answer what is false.

mod bodies;
mod fault;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use nsgate::backend::{self, Authority, Failure};
use nsgate::body::Body;
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::operation::Operation;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::catalog::{Question, Reply, refusal};
use crate::environment::{Inner, World};
use crate::history::Cause;
pub use fault::Fault;
use fault::REFUSALS;

type Subject = (String, Option<String>, Option<u64>);

/// The state of the network: message counts and false answers.
#[derive(Default)]
pub struct Network {
    pub messages: u64,
    /// The tables of a catalog about which a kind of false answer was given. Each is given once.
    lied: BTreeSet<(usize, String, Fault)>,
    /// The subjects about which the last answer was false. The next false answer about one comes only after a true one.
    lying: BTreeSet<(usize, Subject)>,
    /// The time at which the last message so far arrives.
    pub arrived: Duration,
    /// The number of messages that each planned fault could have happened to.
    met: Vec<u64>,
}

/// One catalog, as the gateway of one generation reaches it.
pub struct Wire {
    pub world: Arc<World>,
    pub generation: u64,
    pub catalog: usize,
}

/// One copy of a message on its way.
struct Parcel {
    world: Arc<World>,
    generation: u64,
    catalog: usize,
    number: u64,
    question: Arc<Question>,
    /// True while the caller waits.
    waited_for: Arc<AtomicBool>,
    travel: Duration,
    /// The time between a catalog's look and its write.
    pause: Duration,
    back: Duration,
    answers: Answers,
    /// True if there is another copy.
    doubled: bool,
    reply: Option<oneshot::Sender<Result<Reply, Failure>>>,
}

#[derive(Clone, Copy)]
enum Answers {
    Truly,
    Nothing,
    Broken,
    Error {
        after: bool,
    },
    Conflict,
    /// The catalog acts, and refuses with this entry of `REFUSALS`.
    Refused(usize),
    /// The catalog does not act, and says that it did.
    Idle,
    /// The catalog does not act, and refuses.
    RefusedFirst,
    /// The catalog acts, and says that it has not processed the request.
    Unprocessed,
    /// The version or the table exists, and the answer says that it does not.
    Stale,
    /// The answer is without the latest version.
    StaleList,
}

/// Sets its flag to false when dropped: then the caller has stopped waiting.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl backend::Catalog for Wire {
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        Box::pin(async move {
            let (world, generation) = (&self.world, self.generation);
            let question = Arc::new(question(request).await);
            let streams = question.operation == Operation::ListTableVersions && !question.own;
            world.if_alive(generation).await;
            world.point(generation, "a message is about to be sent");
            world.if_alive(generation).await;
            let waiting = Waiting(Arc::new(AtomicBool::new(true)));
            let (reply, reads_after) = self.send(&question, &waiting.0)?;
            let reply = match reply.await {
                Ok(reply) => reply,
                // The message was lost, so no answer ever comes.
                Err(_) => std::future::pending().await,
            };
            world.if_alive(generation).await;
            let Reply { status, body } = reply?;
            let body = match reads_after {
                Some(later) => self.read_later(question, later),
                None if streams => bodies::slow(&body),
                None => Body::full(body),
            };
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            let json = http::HeaderValue::from_static("application/json");
            response
                .headers_mut()
                .insert(http::header::CONTENT_TYPE, json);
            Ok(response)
        })
    }
}

async fn question(request: Request<Body>) -> Question {
    let (head, body) = request.into_parts();
    let names = head.extensions.get::<Identifier>();
    let table = names.map(|id| id.names().collect::<Vec<_>>().join("$"));
    Question {
        operation: *head
            .extensions
            .get::<Operation>()
            .expect("every request has one"),
        table: table.unwrap_or_default(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        own: head.extensions.get::<Authority>().is_some(),
        body: body
            .collect_up_to(1 << 20)
            .await
            .expect("a body in memory")
            .to_vec(),
    }
}

type Receiver = oneshot::Receiver<Result<Reply, Failure>>;

/// A message on its way: where its answer arrives, and the time from the head of the answer to the catalog's read, if
/// the head comes first.
type Sent = (Receiver, Option<Duration>);

impl Wire {
    /// Sends a message on its way, or both of its copies.
    fn send(
        &self,
        question: &Arc<Question>,
        waited_for: &Arc<AtomicBool>,
    ) -> Result<Sent, Failure> {
        let world = &self.world;
        let inner = &mut *world.lock();
        inner.network.messages += 1;
        inner.history.counts.add("messages to catalogs", 1);
        let number = inner.network.messages;
        let fault = world.fault(inner, number, question, self.catalog);
        let (fault, planned_far) = fault.unzip();
        world.trace(inner, || {
            let fault = fault.map_or(String::new(), |fault| format!("   ** {fault:?}"));
            format!("#{number} → c{} {question}{fault}", self.catalog)
        });
        if let Some(fault) = fault {
            inner.history.counts.add(fault.name(), 1);
            inner.history.mistreated.extend(question.authors());
            if matches!(fault, Fault::Conflict | Fault::RefusedAfter) {
                inner.history.contested.extend(question.authors());
            }
            if fault == Fault::RefusedAfter && question.own && question.removes() {
                let table = (self.catalog, question.table.clone());
                inner.history.refused.insert(table);
            }
        }
        let (reply, receiver) = oneshot::channel();
        let puts_later = inner.catalogs[self.catalog].catalog.ways.puts_later;
        let random = &mut inner.random;
        let (far, near) = match planned_far.flatten() {
            Some(far) => (far, false),
            None => {
                let far = *random.pick(&[3_000, 15_000, 30_000, 90_000, 400_000, 880_000]);
                (random.millis(far, far + 1000), random.chance(80))
            }
        };
        let far = far.min(world.scenario.latest_message);
        let mut parcel = Parcel {
            world: Arc::clone(world),
            generation: self.generation,
            catalog: self.catalog,
            number,
            question: Arc::clone(question),
            waited_for: Arc::clone(waited_for),
            travel: random.millis(1, 6),
            pause: if puts_later {
                random.millis(0, 8)
            } else {
                Duration::ZERO
            },
            back: random.millis(1, 6),
            answers: Answers::Truly,
            doubled: false,
            reply: Some(reply),
        };
        let mut reads_after = None;
        match fault {
            None => {}
            Some(Fault::NotSent) => return Err(Failure::NotSent("no connection".into())),
            Some(Fault::RequestLost) => return Ok((receiver, None)),
            Some(Fault::ResetBefore) => return Err(Failure::Lost("reset".into())),
            Some(Fault::ResetLate) => {
                (parcel.travel, parcel.reply) = (far, None);
                tokio::spawn(parcel.deliver());
                return Err(Failure::Lost("reset".into()));
            }
            Some(Fault::AnswerLost) => parcel.answers = Answers::Nothing,
            Some(Fault::Late) => parcel.travel = far,
            Some(Fault::SlowAnswer) => parcel.back = far,
            Some(Fault::ErrorBefore) => parcel.answers = Answers::Error { after: false },
            Some(Fault::ErrorAfter) => parcel.answers = Answers::Error { after: true },
            Some(Fault::Conflict) => parcel.answers = Answers::Conflict,
            Some(Fault::ResetAfter) => parcel.answers = Answers::Broken,
            Some(Fault::LatePut) => parcel.pause = far,
            Some(Fault::RefusedAfter) => {
                let which = random.below(REFUSALS.len() as u64);
                parcel.answers = Answers::Refused(usize::try_from(which).expect("an index"));
            }
            Some(Fault::Idle) => parcel.answers = Answers::Idle,
            Some(Fault::Stale) => parcel.answers = Answers::Stale,
            Some(Fault::StaleList) => parcel.answers = Answers::StaleList,
            Some(kind @ (Fault::ActsLater | Fault::RefusedFirst)) => {
                tokio::spawn(parcel.copy(far).deliver());
                parcel.answers = match kind {
                    Fault::ActsLater => Answers::Idle,
                    _ => Answers::RefusedFirst,
                };
            }
            Some(Fault::Unprocessed) => parcel.answers = Answers::Unprocessed,
            Some(Fault::HeadFirst) => reads_after = Some(far),
            Some(kind @ (Fault::Duplicated | Fault::Retried)) => {
                parcel.doubled = true;
                let later = if near { random.millis(1, 40) } else { far };
                let mut other = parcel.copy(later);
                match kind {
                    Fault::Retried => std::mem::swap(&mut parcel.reply, &mut other.reply),
                    // Real senders do not repeat a request whose answer has been delivered.
                    _ => parcel.back += other.travel + other.pause,
                }
                tokio::spawn(other.deliver());
            }
        }
        tokio::spawn(parcel.deliver());
        Ok((receiver, reads_after))
    }
}

impl Parcel {
    /// Returns the second copy, which arrives `later`.
    fn copy(&self, later: Duration) -> Self {
        Self {
            world: Arc::clone(&self.world),
            question: Arc::clone(&self.question),
            waited_for: Arc::clone(&self.waited_for),
            travel: self.travel + later,
            reply: None,
            ..*self
        }
    }

    async fn deliver(mut self) {
        {
            let arrives = self.world.elapsed() + self.travel + self.pause;
            let network = &mut self.world.lock().network;
            network.arrived = network.arrived.max(arrives);
        }
        sleep(self.travel).await;
        let reply = self.done().await;
        if matches!(self.answers, Answers::Nothing) {
            self.reply = None;
            return;
        }
        sleep(self.back).await;
        if let Some(to) = self.reply.take() {
            // The caller may have stopped waiting.
            let _ = to.send(reply);
        }
    }

    /// Lets the catalog act on the message. Returns what the catalog answers.
    async fn done(&self) -> Result<Reply, Failure> {
        match self.answers {
            Answers::Error { after: false } => return Ok(refusal(500, 18, "disk on fire")),
            Answers::Conflict => return Ok(refusal(409, 14, "somebody was here")),
            Answers::Stale if self.question.operation == Operation::DescribeTable => {
                return Ok(refusal(404, 4, "no such table"));
            }
            Answers::Stale => return Ok(refusal(404, 11, "no such version")),
            Answers::RefusedFirst => return Ok(refusal(400, 13, "this makes no sense")),
            Answers::Idle => return Ok(self.as_if_done()),
            Answers::StaleList => return Ok(self.listed_before()),
            _ => {}
        }
        let reply = self.acted().await?;
        if matches!(self.answers, Answers::Truly) && self.question.looks() {
            let subject = (self.catalog, self.question.subject());
            self.world.lock().network.lying.remove(&subject);
        }
        Ok(match self.answers {
            Answers::Broken => return Err(Failure::Lost("reset".into())),
            Answers::Unprocessed => return Err(Failure::NotSent("refused stream".into())),
            Answers::Error { .. } => refusal(500, 18, "disk on fire"),
            Answers::Refused(which) => {
                let (status, code, message) = REFUSALS[which];
                refusal(status, code, message)
            }
            _ => reply,
        })
    }

    async fn acted(&self) -> Result<Reply, Failure> {
        let (world, question) = (&self.world, &self.question);
        let life = {
            let depot = &world.lock().catalogs[self.catalog];
            match depot.up {
                true => {}
                // The other copy may still arrive, so the request is not known to be unsent.
                false if self.doubled => return Err(Failure::Lost("bad gateway".into())),
                false => return Err(Failure::NotSent("connection refused".into())),
            }
            depot.life
        };
        let reply = if self.pause.is_zero() || question.operation != Operation::CreateTableVersion {
            self.change(|inner| inner.catalogs[self.catalog].catalog.answer(question))
        } else {
            let looked = world.lock().catalogs[self.catalog].catalog.look(question);
            match looked {
                Err(refused) => refused,
                Ok(put) => {
                    world.note(|| format!("#{} has looked and will put", self.number));
                    sleep(self.pause).await;
                    if world.lock().catalogs[self.catalog].life != life {
                        return Err(Failure::Lost("the catalog stopped".into()));
                    }
                    self.change(|inner| inner.catalogs[self.catalog].catalog.put(put))
                }
            }
        };
        if reply.status == 409 {
            // Another client was faster, or the other copy of the message.
            let contested = &mut world.lock().history.contested;
            contested.extend(question.authors());
        }
        world.point(self.generation, "a catalog has acted");
        if world.lock().catalogs[self.catalog].life != life {
            return Err(Failure::Lost("the catalog stopped".into()));
        }
        Ok(reply)
    }

    /// Lets the catalog act, and records what it did.
    fn change(&self, act: impl FnOnce(&mut Inner) -> Reply) -> Reply {
        let world = &self.world;
        let inner = &mut *world.lock();
        let reply = act(inner);
        world.trace(inner, || {
            format!("#{} done: {} {}", self.number, reply.status, reply.body)
        });
        let is_alive = world.is_alive(self.generation);
        let cause = Cause {
            own: self.question.own,
            behind: false,
            waited_for: self.waited_for.load(Ordering::Relaxed) && is_alive,
            doubled: self.doubled,
        };
        inner.happened(&world.scenario, self.catalog, cause);
        reply
    }
}
