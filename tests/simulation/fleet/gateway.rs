//! The start of one gateway that shares a log, as the program starts it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use nsgate::batch::Batches;
use nsgate::batch::fleet::{OwnedGuards, Role};
use nsgate::batch::log::postgres::{Outside, PostgresLog, Stream};
use nsgate::config::{Limits, LogAddress, PostgresLogConfig};
use nsgate::gateway::{BodyLimits, Gateway};
use nsgate::layer::recognize::RecognizeLayer;
use nsgate::layer::share::{PeerClient, ShareLayer, Sharing};
use nsgate::request::held::HeldBodies;
use tokio::task::spawn_local;
use tower::Layer as _;
use tower::util::BoxCloneSyncService;

use super::peers::{PeerWire, entrance};
use crate::clock;
use crate::environment::World;
use crate::front::{Front, Running};

/// The servers of the log.
const SERVERS: &str = "postgres://nsgate@127.0.0.1:1,127.0.0.1:2/nsgate";

/// The world outside of one process.
struct Surroundings {
    world: Arc<World>,
    gateway: usize,
    life: u64,
}

impl Outside for Surroundings {
    fn dial(&self, server: usize) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        Box::pin(super::store::dial(
            &self.world,
            self.gateway,
            self.life,
            server,
        ))
    }

    fn end_after(&self, left: Duration) {
        self.world.end_after(self.life, left);
    }
}

/// Returns the address of a gateway for others.
pub fn address(gateway: usize) -> String {
    format!("g{gateway}:8079")
}

/// Starts a gateway. Returns when it serves, or when it cannot share the log.
pub async fn start(front: &Arc<Front>, gateway: usize, life: u64) {
    let world = &front.world;
    let plan = world.plan();
    let LogAddress::Postgres(servers) = LogAddress::parse(SERVERS).expect("an address") else {
        panic!("the log is a file")
    };
    // A slow clock shows the lease later.
    let lease = plan.lease * plan.paces[gateway] / 1000;
    let config = PostgresLogConfig::new(&servers, None, None, "nsgate", lease);
    let outside = Arc::new(Surroundings {
        world: Arc::clone(world),
        gateway,
        life,
    });
    let ends = Arc::clone(world);
    let on_failure = move |error| {
        ends.note(|| format!("g{gateway} must end: {error}"));
        ends.kill(life);
    };
    let (name, at) = (format!("g{gateway}"), address(gateway));
    let shared = PostgresLog::share_simulated(&config, &name, at, outside, on_failure).await;
    let (log, guards) = match shared {
        Ok(shared) => shared,
        Err(error) => panic!("g{gateway} cannot share the log: {error}"),
    };
    let fleet = Arc::clone(log.fleet());
    let batches = Arc::new(Batches::sharing_with_clock(
        Arc::new(log),
        &fleet,
        OwnedGuards::new(Arc::new(guards)),
        world.scenario.settings.clone(),
        front.metrics.batch().clone(),
        clock::millis,
    ));
    let routed = front.routed(life);
    fleet.routes_are("the same".to_owned());
    batches.backends_are(&routed.backends, |_| false);
    let limits = Limits::default();
    let peers = PeerWire {
        front: Arc::downgrade(front),
        world: Arc::clone(world),
        gateway,
        life,
    };
    let sharing = Sharing {
        fleet: Arc::clone(&fleet),
        world: Arc::clone(&routed),
        peers: Some(Arc::new(PeerClient::simulated(Arc::new(peers)))),
        bodies: BodyLimits {
            json: limits.json_body,
            held: Arc::new(HeldBodies::new(limits.json_bodies, limits.caller_share)),
        },
    };
    let inner = Gateway::new(Arc::clone(&routed), Arc::clone(&batches), &limits);
    let shared = ShareLayer::new(Some(Arc::new(sharing))).layer(inner);
    let service = BoxCloneSyncService::new(RecognizeLayer::default().layer(shared));
    let running = Running {
        generation: life,
        entrance: Some(entrance(service.clone(), &fleet)),
        service,
        batches: Arc::clone(&batches),
        is_open: false,
    };
    front.runs(gateway, Some(running.clone()));
    let known = fleet.role_when(|role| *role != Role::Outside).await;
    let recover = {
        let (world, batches) = (Arc::clone(world), Arc::clone(&batches));
        move || {
            let (world, batches) = (Arc::clone(&world), Arc::clone(&batches));
            let backends = routed.backends.clone();
            async move {
                world.if_alive(life).await;
                let taken = match batches.recover(&backends).await {
                    Ok(taken) => taken,
                    Err(error) => {
                        world.note(|| format!("g{gateway} cannot recover: {error}"));
                        return world.kill(life);
                    }
                };
                {
                    let inner = &mut *world.lock();
                    world.trace(inner, || {
                        format!("g{gateway} serves the log, {taken} batches unfinished")
                    });
                    inner.history.counts.add("batches taken over", taken as u64);
                }
                let restoring = Arc::clone(&batches);
                spawn_local(async move { batches.release_guards().await });
                spawn_local(async move { restoring.restore_log().await });
            }
        }
    };
    if known == Role::Recovering {
        recover().await;
    }
    spawn_local(async move {
        loop {
            fleet.role_when(|role| *role == Role::Recovering).await;
            recover().await;
        }
    });
    world.note(|| format!("g{gateway} serves"));
    front.runs(
        gateway,
        Some(Running {
            is_open: true,
            ..running
        }),
    );
}
