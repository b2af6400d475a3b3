//! The network between gateways.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, Ready, ready};
use http::{Request, Response};
use nsgate::batch::fleet::Fleet;
use nsgate::body::Body;
use nsgate::layer::share::{self, PeerNetwork, Unanswered};
use tokio::time::{sleep, timeout};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use super::gateway::address;
use crate::environment::World;
use crate::front::{self, Front, Reply, refused};

/// The time after which a connection that cannot be made is given up.
const CONNECT: Duration = Duration::from_secs(2);
/// The time after which a gateway that answers nothing at all is given up.
const SILENCE: Duration = Duration::from_secs(8);

/// The entrance of a gateway for others.
pub type Entrance = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// The reply that a gateway gave instead of a response, on its way to another gateway.
#[derive(Clone)]
pub struct Refused(pub Reply);

/// The network, as the process of one gateway reaches it.
pub struct PeerWire {
    pub front: Weak<Front>,
    pub world: Arc<World>,
    pub gateway: usize,
    pub life: u64,
}

/// A service whose errors are responses.
#[derive(Clone)]
struct Answering(front::Service);

/// The pages for operators, which nobody asks for.
#[derive(Clone)]
struct NoPages;

/// The fault of a request to another gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is reset before the request has arrived.
    Unsent,
    /// The connection breaks before the request has arrived, which the sender does not know.
    LostBefore,
    /// The connection breaks when the answer is under way.
    LostAfter,
}

impl Fault {
    pub const ALL: [Self; 3] = [Self::Unsent, Self::LostBefore, Self::LostAfter];
}

/// Returns the entrance to a service.
pub fn entrance(service: front::Service, fleet: &Arc<Fleet>) -> Entrance {
    let entrance = share::Entrance::new(Answering(service), NoPages, Arc::clone(fleet));
    BoxCloneSyncService::new(entrance)
}

impl PeerWire {
    /// Returns the fault of the next request, and its times there and back.
    fn fate(&self) -> (Option<Fault>, Duration, Duration) {
        let inner = &mut *self.world.lock();
        let plan = self.world.plan();
        inner.passed_on += 1;
        let random = &mut inner.random;
        let (least, most) = plan.travels;
        let mut travel = || random.millis(least, most);
        let (there, back) = (travel(), travel());
        let fault = if self.world.is_rough() && random.chance(plan.peer_faults) {
            Some(*random.pick(&Fault::ALL))
        } else {
            plan.peer_fault(inner.passed_on)
        };
        inner.history.counts.add("requests passed on", 1);
        if fault.is_some() {
            inner.history.counts.add("fault: between gateways", 1);
        }
        (fault, there, back)
    }

    async fn carried(&self, request: Request<Body>) -> Result<Response<Body>, Unanswered> {
        let world = &self.world;
        let lost = || Err(Unanswered::Lost("the connection broke".into()));
        let unsent = || Err(Unanswered::Unsent("no connection".into()));
        let named = request.uri().authority().map(ToString::to_string);
        let to = (0..world.gateways()).find(|to| Some(address(*to)) == named);
        let to = to.expect("the address of a gateway");
        let (fault, there, back) = self.fate();
        world.note(|| {
            format!(
                "g{} → g{to} {} {fault:?}",
                self.gateway,
                request.uri().path()
            )
        });
        let apart = || world.lock().troubles.cut_apart(self.gateway, to);
        if apart().is_some() {
            let connected = timeout(CONNECT, super::while_cut(apart)).await;
            if connected.is_err() {
                return unsent();
            }
        }
        sleep(there).await;
        world.if_alive(self.life).await;
        match fault {
            Some(Fault::Unsent) => return unsent(),
            Some(Fault::LostBefore) => return lost(),
            _ => {}
        }
        let front = self.front.upgrade().expect("the simulation goes on");
        let running = front.running(to);
        let Some((running, entrance)) = running.and_then(|it| Some((it.generation, it.entrance?)))
        else {
            return unsent();
        };
        let answered = async {
            world.if_alive(running).await;
            let Ok(response) = entrance.oneshot(request).await;
            world.if_alive(running).await;
            response
        };
        let response = tokio::select! {
            biased;
            () = world.death(running) => return lost(),
            response = answered => response,
        };
        sleep(back).await;
        if fault == Some(Fault::LostAfter) {
            return lost();
        }
        if apart().is_some() && timeout(SILENCE, super::while_cut(apart)).await.is_err() {
            return lost();
        }
        Ok(response)
    }
}

impl PeerNetwork for PeerWire {
    fn carry(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Unanswered>> {
        Box::pin(async move {
            self.world.if_alive(self.life).await;
            let answer = self.carried(request).await;
            self.world.if_alive(self.life).await;
            answer
        })
    }
}

impl Service<Request<Body>> for Answering {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move {
            Ok(service.oneshot(request).await.unwrap_or_else(|error| {
                let mut response = Response::new(Body::full(error.message().to_owned()));
                *response.status_mut() = error.status();
                response.extensions_mut().insert(Refused(refused(&error)));
                response.extensions_mut().insert(error.origin());
                response
            }))
        })
    }
}

impl Service<Request<Body>> for NoPages {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Ok(Response::new(Body::full(""))))
    }
}
