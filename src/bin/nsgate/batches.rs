//! `nsgate batches`: shows and resolves the batches of a running gateway, through its admin address.

pub(crate) mod client;
mod watch;
mod words;

use std::time::Duration;

use http::Method;
use nsgate::admin::ResolveRequest;
use nsgate::admin::batches::BatchDetail;
use nsgate::batch::step::Decision;
use nsgate::metrics::BatchState;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::cli::{Batches, OfBatches, Resolve};
use client::{Client, Problem};
pub(crate) use words::{age, plain};

/// The most checks for the result of a decision, with a pause of `PAUSE` between two of them.
const LOOKS: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// The characters to encode in a batch's name, which has `-` besides letters and digits.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-');

/// Runs the command, and returns the text to print.
///
/// # Errors
/// The gateway cannot be reached, or refuses.
pub(crate) fn run(asked: &Batches) -> Result<String, Problem> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(Problem::Runtime)?;
    let gateway = &asked.gateway;
    let client = Client::new(&gateway.admin, gateway.token.as_ref())?.with_tls(&gateway.tls)?;
    runtime.block_on(answer(asked, &client))
}

async fn answer(asked: &Batches, client: &Client) -> Result<String, Problem> {
    let said = match &asked.what {
        OfBatches::List => client.ask(Method::GET, "/batches", None).await?,
        OfBatches::Watch { interval } => {
            return watch::follow(client, *interval, asked.gateway.json).await;
        }
        OfBatches::Show { id } => client.ask(Method::GET, &page(id), None).await?,
        OfBatches::Resolve(resolve) => {
            let path = format!("{}/resolve", page(&resolve.id));
            let body = serde_json::json!(request(resolve));
            client.ask(Method::POST, &path, Some(body)).await?
        }
    };
    if asked.gateway.json {
        return Ok(format!("{said:#}"));
    }
    let admin = client.admin();
    match &asked.what {
        OfBatches::List | OfBatches::Watch { .. } => Ok(words::list(&read(client, said)?, admin)),
        OfBatches::Show { .. } => Ok(words::show(&read(client, said)?, admin)),
        OfBatches::Resolve(resolve) => became(client, resolve).await,
    }
}

/// Returns the result of the decision, once it is carried out or has had some time for it.
async fn became(client: &Client, resolve: &Resolve) -> Result<String, Problem> {
    let id = &*resolve.id;
    let kept = if resolve.commit {
        "; what was left of it is kept, and no longer hidden"
    } else {
        ""
    };
    let mut looks = 0;
    loop {
        let said = match client.ask(Method::GET, &page(id), None).await {
            Err(Problem::Unknown(over)) => {
                return Ok(format!("decision carried out: {over}{kept}"));
            }
            said => said?,
        };
        let batch: BatchDetail = read(client, said)?;
        // Its tables are free, and the gateway only watches for what may still arrive.
        if batch.state == BatchState::Watching {
            return Ok(format!(
                "decision carried out: batch {id} needs nothing more"
            ));
        }
        // It was checked again, and nothing has changed.
        let waits_again = batch.state == BatchState::Hazard;
        if looks == LOOKS || waits_again {
            let now = words::show(&batch, client.admin());
            return Ok(format!(
                "decision recorded, but not carried out yet. The batch now:\n\n{now}"
            ));
        }
        looks += 1;
        sleep(PAUSE).await;
    }
}

fn request(resolve: &Resolve) -> ResolveRequest {
    let decision = if resolve.commit {
        Decision::Commit
    } else {
        Decision::Abort
    };
    let user = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    let who = resolve.who.clone();
    let who = who.or_else(|| user("USER")).or_else(|| user("LOGNAME"));
    ResolveRequest {
        decision,
        who: who.unwrap_or_default(),
        why: resolve.why.clone(),
    }
}

fn page(id: &str) -> String {
    format!("/batches/{}", utf8_percent_encode(id, SEGMENT))
}

fn read<T: serde::de::DeserializeOwned>(client: &Client, said: Value) -> Result<T, Problem> {
    serde_json::from_value(said).map_err(|_| client.stranger())
}
