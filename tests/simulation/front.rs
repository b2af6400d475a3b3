//! The gateways and their clients' access to them: the real service and real batches, over simulated catalogs and a
//! simulated log. After a crash another gateway takes over from the log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response};
use nsgate::backend::Backend;
use nsgate::batch::{Batches, OpenBatch};
use nsgate::body::Body;
use nsgate::config::{BatchMode, Limits};
use nsgate::error::Error;
use nsgate::gateway::{self, Gateway};
use nsgate::layer::recognize::RecognizeLayer;
use nsgate::metrics::Metrics;
use nsgate::protocol::identifier::Identifier;
use nsgate::request::context::RequestContext;
use nsgate::request::peer::Peer;
use nsgate::route;
use tokio::time::sleep;
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _};

use crate::clock;
use crate::environment::World;
use crate::fleet::peers::{Entrance, Refused};
use crate::ledger::Disk;
use crate::network::Wire;
use crate::random::Random;
use crate::scenario::{backend_name, mounted};

/// The length from which on lists are streamed, in bytes: less than one version.
const SHORT: usize = 32;

/// The gateways as clients reach them, if they are up.
pub struct Front {
    pub world: Arc<World>,
    pub(super) metrics: Arc<Metrics>,
    running: Vec<Mutex<Option<Running>>>,
}

/// The service of a gateway.
pub type Service = BoxCloneSyncService<Request<Body>, Response<Body>, Error>;

#[derive(Clone)]
pub struct Running {
    pub generation: u64,
    pub service: Service,
    pub batches: Arc<Batches>,
    /// The entrance for other gateways; `None` if there are none.
    pub entrance: Option<Entrance>,
    /// True if clients can connect.
    pub is_open: bool,
}

/// A request of a client.
#[derive(Clone, Default)]
pub struct Call {
    pub path: String,
    pub body: String,
    pub key: Option<String>,
    /// The gateway that is asked first; `None` for any.
    pub at: Option<usize>,
    /// The time after which the client abandons its request; `None` for never.
    pub patience: Option<Duration>,
}

/// The result of a client's request.
#[derive(Clone)]
pub enum Reply {
    Answer {
        status: u16,
        body: Vec<u8>,
    },
    /// An error of the gateway itself.
    Error {
        status: u16,
        code: u8,
        transaction: Option<String>,
        message: String,
    },
    /// The connection broke after the request was sent, or the client abandoned it.
    Broken,
    /// The connection failed: no gateway was up.
    NotSent,
}

impl Front {
    pub fn new(world: &Arc<World>, metrics: &Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            world: Arc::clone(world),
            metrics: Arc::clone(metrics),
            running: (0..world.gateways()).map(|_| Mutex::default()).collect(),
        })
    }

    /// Starts the gateway, and another one after every crash.
    pub async fn keep_up(self: Arc<Self>) {
        let mut random = Random::new(self.world.scenario.seed, 2);
        loop {
            let generation = self.world.generation();
            tokio::select! {
                biased;
                () = self.world.death(generation) => {}
                () = self.start(generation) => self.world.death(generation).await,
            }
            let (least, most) = self.world.scenario.dead_for;
            sleep(random.millis(least, most)).await;
        }
    }

    /// Returns what a gateway of this generation reaches its catalogs by.
    pub fn routed(&self, generation: u64) -> Arc<gateway::RoutingSnapshot> {
        let world = &self.world;
        let limits = Limits::default();
        let backends: Vec<Arc<Backend>> = (0..world.scenario.catalogs.len())
            .map(|catalog| {
                let wire = Wire {
                    world: Arc::clone(world),
                    generation,
                    catalog,
                };
                let ways = world.scenario.catalogs[catalog];
                let mode = match (ways.told, ways.atomic) {
                    (false, _) => BatchMode::Auto,
                    (true, true) => BatchMode::Atomic,
                    (true, false) => BatchMode::Versions,
                };
                let name = backend_name(catalog);
                Arc::new(Backend::own(name, mode, wire, &limits, &self.metrics))
            })
            .collect();
        let mounts = (0..backends.len()).map(|catalog| {
            let (at, there) = mounted(catalog);
            route::Mount {
                namespace: Identifier::from_names(&at).expect("names"),
                backend: catalog,
                backend_name: Arc::clone(backends[catalog].name()),
                backend_namespace: Identifier::from_names(&there).expect("names"),
            }
        });
        let routes = route::Table::new(mounts.collect());
        Arc::new(gateway::RoutingSnapshot { routes, backends })
    }

    async fn start(&self, generation: u64) {
        let world = &self.world;
        let routed = self.routed(generation);
        let disk = Disk {
            world: Arc::clone(world),
            generation,
        };
        let batches = Batches::with_clock(
            Arc::new(disk),
            world.scenario.settings.clone(),
            self.metrics.batch().clone(),
            clock::millis,
        );
        // Every second scenario has even short lists streamed.
        let batches = Arc::new(match world.scenario.seed % 2 {
            0 => batches,
            _ => batches.streaming_lists_above(SHORT),
        });
        let taken = batches.recover(&routed.backends).await;
        let taken = taken.expect("a log that can be read");
        world.note(|| format!("gateway {generation} is up, {taken} batches unfinished"));
        {
            let inner = &mut *world.lock();
            inner.history.counts.add("batches taken over", taken as u64);
        }
        let service = Gateway::new(routed, Arc::clone(&batches), &Limits::default());
        self.runs(
            0,
            Some(Running {
                generation,
                service: BoxCloneSyncService::new(RecognizeLayer::default().layer(service)),
                batches,
                entrance: None,
                is_open: true,
            }),
        );
    }

    /// Sets what runs as a gateway.
    pub fn runs(&self, gateway: usize, running: Option<Running>) {
        let place = self.running[gateway].lock();
        *place.unwrap_or_else(PoisonError::into_inner) = running;
    }

    /// Returns what runs as a gateway; `None` while it is down.
    pub fn running(&self, gateway: usize) -> Option<Running> {
        let place = self.running[gateway].lock();
        let running = place.unwrap_or_else(PoisonError::into_inner).clone();
        running.filter(|it| self.world.is_alive(it.generation))
    }

    /// Returns the batches that are not over; `None` while no gateway has the log.
    pub fn open(&self) -> Option<Vec<OpenBatch>> {
        let owns = |it: &Running| {
            let fleet = it.batches.fleet();
            fleet.is_none_or(|fleet| fleet.serves_as_owner())
        };
        let mut running = (0..self.running.len()).filter_map(|gateway| self.running(gateway));
        Some(running.find(owns)?.batches.open())
    }

    /// Sends a request and returns its result.
    pub async fn ask(&self, call: Call, random: &mut Random) -> Reply {
        sleep(random.millis(1, 5)).await;
        let gateway = match (call.at, self.running.len()) {
            (Some(at), _) => at,
            (None, 1) => 0,
            (None, many) => random.index(many),
        };
        let running = self.running(gateway).filter(|it| it.is_open);
        let Some(Running {
            generation,
            service,
            ..
        }) = running
        else {
            return Reply::NotSent;
        };
        let served = async {
            self.world.if_alive(generation).await;
            let reply = served(service, call.clone()).await;
            self.world.if_alive(generation).await;
            reply
        };
        let patience = call.patience.unwrap_or(Duration::from_secs(7200));
        let reply = tokio::select! {
            biased;
            () = self.world.death(generation) => Reply::Broken,
            () = sleep(patience) => Reply::Broken,
            reply = served => reply,
        };
        sleep(random.millis(1, 5)).await;
        reply
    }

    /// Sends a request, and repeats it at any gateway while none is up.
    pub async fn ask_somebody(&self, mut call: Call, random: &mut Random) -> Reply {
        for _ in 0..200 {
            match self.ask(call.clone(), random).await {
                Reply::NotSent => sleep(random.millis(50, 400)).await,
                reply => return reply,
            }
            call.at = None;
        }
        Reply::NotSent
    }
}

async fn served(service: Service, call: Call) -> Reply {
    let mut request = Request::new(Body::full(call.body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = call.path.parse().expect("a path");
    let client = Peer::new(([10, 0, 0, 1], 4000).into(), false);
    RequestContext::more(request.extensions_mut()).peer = Some(client);
    if let Some(key) = call.key {
        let key = HeaderValue::try_from(key).expect("a key");
        request.headers_mut().insert("idempotency-key", key);
    }
    match service.oneshot(request).await {
        Ok(response) => {
            let (head, body) = response.into_parts();
            if let Some(Refused(reply)) = head.extensions.get() {
                return reply.clone();
            }
            match body.collect_up_to(1 << 20).await {
                Ok(body) => Reply::Answer {
                    status: head.status.as_u16(),
                    body: body.to_vec(),
                },
                // A list that streamed was cut.
                Err(_) => Reply::Broken,
            }
        }
        Err(error) => refused(&error),
    }
}

/// Returns the reply of an error. Whoever is told that something may have been carried out knows as much as without an
/// answer.
pub fn refused(error: &Error) -> Reply {
    if error.message().contains("may have been carried out") {
        return Reply::Broken;
    }
    Reply::Error {
        status: error.status().as_u16(),
        code: error.code().number(),
        transaction: error.transaction().map(str::to_owned),
        message: error.message().to_owned(),
    }
}
