//! Fills the gateway's caches of tokens and callers, so that the measurement does not show how they fill.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::World;
use crate::connection::{Connection, Message};

/// The connections that show tokens at a time.
const CONNECTIONS: usize = 8;

/// Shows this many tokens, each twice, because tokens that are shown once are forgotten soon.
pub async fn tokens(world: &Arc<World>, count: usize) {
    let mut all = JoinSet::new();
    for first in 0..CONNECTIONS {
        let world = Arc::clone(world);
        all.spawn(async move {
            let mut connection = Connection::open(world.gateway.address).await.unwrap();
            for number in (first..count).step_by(CONNECTIONS) {
                let bearer = world.issuer.bearer(&format!("filling{number}"));
                for _ in 0..2 {
                    let target = "/v1/table/nowhere%24t/describe".to_owned();
                    let message = Message::post(target, &bearer, "{}");
                    let (status, _) = connection.send(message).await.unwrap();
                    assert_eq!(status, 404);
                }
            }
        });
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
}
