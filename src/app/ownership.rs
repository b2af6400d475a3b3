//! The ownership of the batch log: the batches that the last owner left unfinished are recovered before they can be met.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::active::ActiveConfig;
use super::{Failure, RECOVERING};
use crate::backend::Backend;
use crate::batch::Batches;
use crate::batch::fleet::Role;
use crate::batch::log::LogError;

/// The time after which a recovery is reported that is not over.
const LONG: Duration = Duration::from_secs(5);

/// Recovers the batches of the log, or, if other gateways share it, waits until one of them has it. Recovers them later,
/// too, whenever this gateway gets the log; an error of that is sent to the receiver.
pub(super) async fn begin(in_use: &Arc<ActiveConfig>) -> Result<mpsc::Receiver<LogError>, Failure> {
    let (failed, failure) = mpsc::channel(1);
    let batches = Arc::clone(&in_use.lasting.batches);
    batches.backends_are(&in_use.snapshot().world.backends, |_| false);
    let Some(fleet) = batches.fleet().cloned() else {
        recover(&batches, &in_use.snapshot().world.backends).await?;
        // Nothing is sent, and the receiver of a channel without senders is not asked again.
        return Ok(failure);
    };
    let known = fleet.role_when(|role| *role != Role::Outside).await;
    if known == Role::Recovering {
        recover(&batches, &in_use.snapshot().world.backends).await?;
        own(&batches);
    }
    if !fleet.is_shared() {
        return Ok(failure);
    }
    let in_use = Arc::clone(in_use);
    tokio::spawn(async move {
        loop {
            fleet.role_when(|role| *role == Role::Recovering).await;
            let readiness = &in_use.lasting.readiness;
            readiness.hold(RECOVERING);
            let backends = Arc::clone(&in_use.snapshot().world);
            let recovered = reported(batches.recover(&backends.backends));
            match recovered.await {
                Ok(unfinished) => {
                    tracing::info!(
                        batches = unfinished,
                        "this gateway serves the batch log now"
                    );
                    own(&batches);
                    readiness.lift(RECOVERING);
                }
                Err(error) => {
                    let _ = failed.send(error).await;
                    return;
                }
            }
        }
    });
    Ok(failure)
}

/// Waits for a recovery, and reports every now and then that it is not over.
async fn reported<T>(recovery: impl Future<Output = T>) -> T {
    let (mut recovery, began) = (pin!(recovery), Instant::now());
    loop {
        if let Ok(recovered) = timeout(LONG, &mut recovery).await {
            return recovered;
        }
        tracing::warn!(
            seconds = began.elapsed().as_secs(),
            "this gateway has the batch log and still recovers its batches; until then it serves no table. Look in PostgreSQL \
             for a lock that is held, or for why the server is slow"
        );
    }
}

/// Locks and hides the batches that the last owner left unfinished.
async fn recover(batches: &Batches, backends: &[Arc<Backend>]) -> Result<(), Failure> {
    let recovered = batches.recover(backends).await;
    let unfinished = recovered.map_err(Failure::BatchLog)?;
    if unfinished > 0 {
        tracing::info!(
            batches = unfinished,
            "recovering unfinished batches of the last run"
        );
    }
    Ok(())
}

/// Begins the work of an owner that lasts as long as the process.
fn own(batches: &Arc<Batches>) {
    let (forgetting, releasing) = (Arc::clone(batches), Arc::clone(batches));
    let restoring = Arc::clone(batches);
    tokio::spawn(async move { forgetting.forget_old().await });
    tokio::spawn(async move { releasing.release_guards().await });
    tokio::spawn(async move { restoring.restore_log().await });
}
