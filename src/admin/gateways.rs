//! The page `/gateways`, and the pages about batches at a gateway that does not own the batch log: its owner answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tower::Service;

use super::{Admin, AdminState, Problem};
use crate::batch::fleet::{Member, Owner, Role};
use crate::body::Body;
use crate::error::code::Code;
use crate::layer::share::{PeerClient, Unanswered};
use crate::request::context::RequestContext;

/// The longest time that the owner of the log may take for a page.
const PATIENCE: Duration = Duration::from_secs(20);

/// The words for a gateway that has just got the log.
const RECOVERS: &str = "this gateway has the batch log now and still recovers its batches, so it does not know which are open; try again in some seconds, and if that lasts, look in PostgreSQL for a lock that is held";

/// The page `/gateways`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatewayList {
    /// True if the batch log is one that gateways can share.
    pub shared: bool,
    /// The gateways, by name.
    pub gateways: Vec<Member>,
}

/// The gateway that answers for this one.
pub(super) struct Elsewhere {
    owner: Option<Owner>,
    peers: Arc<PeerClient>,
}

/// The pages about batches, for gateways that pass requests of operators on.
#[derive(Clone)]
pub struct PagesForGateways(Admin);

/// True if a path is that of a page about batches.
pub(super) fn is_about_batches(path: &str) -> bool {
    path == "/batches" || path.starts_with("/batches/")
}

/// Makes `/gateways`.
pub(super) fn list(shown: &AdminState) -> GatewayList {
    let fleet = shown.batches.fleet();
    let mut gateways = fleet.map_or_else(Vec::new, |fleet| fleet.members().to_vec());
    let recovers = fleet.is_some_and(|fleet| fleet.role() == Role::Recovering);
    for one in gateways.iter_mut().filter(|one| one.is_this) {
        one.recovers = recovers;
    }
    GatewayList {
        shared: fleet.is_some_and(|fleet| fleet.is_shared()),
        gateways,
    }
}

/// Returns why this gateway, which has the log, does not know the batches yet; `None` if it knows them, or has no log.
pub(super) fn recovering(shown: &AdminState) -> Option<&'static str> {
    let fleet = shown.batches.fleet()?;
    (fleet.role() == Role::Recovering).then_some(RECOVERS)
}

/// Returns the gateway that knows the batches; `None` if it is this one.
pub(super) fn elsewhere(shown: &AdminState) -> Option<Elsewhere> {
    let (fleet, peers) = (shown.batches.fleet()?, shown.current.load().peers.clone()?);
    let owner = match fleet.role() {
        Role::Owner | Role::Recovering => return None,
        Role::Follower(owner) => owner,
        Role::Outside => None,
    };
    Some(Elsewhere { owner, peers })
}

impl Elsewhere {
    /// Names the gateway that answers, and its address.
    pub(super) fn owner_words(&self) -> String {
        match &self.owner {
            Some(owner) => format!(
                "gateway `{}`, which has the batch log, at {}",
                owner.name, owner.address
            ),
            None => "the gateway that has the batch log".to_owned(),
        }
    }
}

/// Has the owner of the log answer a request of an operator.
pub(super) async fn pass_on(elsewhere: Elsewhere, request: Request<Body>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let Elsewhere { owner, peers } = elsewhere;
    let Some(owner) = owner else {
        let words = "no gateway has the batch log at the moment, or this one cannot reach the log; try again in some seconds";
        let problem = Problem::new(Code::ServiceUnavailable, words);
        return problem.at(&path).into_response();
    };
    let peer = RequestContext::of(request.extensions()).peer.clone();
    let is_decision = request.method() == Method::POST;
    let asked = peers.ask(&owner, peer.as_ref(), Duration::ZERO, request);
    match timeout(PATIENCE, asked).await {
        Ok(Ok(response)) => response,
        Ok(Err(Unanswered::Away(response))) => *response,
        unanswered => {
            let may_be_done = !matches!(
                unanswered,
                Ok(Err(Unanswered::Unsent(_)
                    | Unanswered::Insecure(_)
                    | Unanswered::Recovering))
            );
            let advice = if is_decision && may_be_done {
                "the decision may be recorded; look at the batch before you decide again"
            } else {
                "try again in some seconds, or look at `nsgate gateways`"
            };
            let what = match unanswered {
                Ok(Err(Unanswered::Recovering)) => "still recovers its batches",
                _ => "does not answer",
            };
            let words = format!(
                "gateway `{}`, which has the batch log, {what} at {}; {advice}",
                owner.name, owner.address
            );
            let problem = Problem::new(Code::ServiceUnavailable, words);
            problem.at(&path).into_response()
        }
    }
}

impl Admin {
    /// Returns the pages about batches, for other gateways, which have checked the operator's token.
    pub fn for_gateways(&self) -> PagesForGateways {
        PagesForGateways(self.clone())
    }
}

impl Service<Request<Body>> for PagesForGateways {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let admin = self.0.clone();
        Box::pin(async move { Ok(admin.page(request).await) })
    }
}
