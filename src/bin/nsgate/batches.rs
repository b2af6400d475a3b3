//! `nsgate batches`: shows and resolves the batches of a running gateway, through its admin address.

pub(crate) mod client;
mod outcome;
mod watch;
pub(crate) mod words;

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
    let client = Client::of(&asked.gateway)?;
    runtime.block_on(answer(asked, &client))
}

async fn answer(asked: &Batches, client: &Client) -> Result<String, Problem> {
    let mut before = None;
    let said = match &asked.what {
        OfBatches::List => client.ask(Method::GET, "/batches", None).await?,
        OfBatches::Watch { interval } => {
            return watch::follow(client, *interval, asked.gateway.json).await;
        }
        OfBatches::Show { id } => client.ask(Method::GET, &page(id), None).await?,
        OfBatches::Resolve(resolve) => {
            let path = format!("{}/resolve", page(&resolve.id));
            let body = serde_json::json!(request(resolve)?);
            // Without it, the result is told in fewer words.
            let look = client.ask(Method::GET, &page(&resolve.id), None).await;
            before = look.ok().and_then(|said| serde_json::from_value(said).ok());
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
        OfBatches::Resolve(resolve) => became(client, resolve, before).await,
    }
}

/// Returns what the decision has led to, once it is carried out or has had some time for it. `before` is the batch
/// before the decision; `None` if it was gone already.
async fn became(
    client: &Client,
    resolve: &Resolve,
    before: Option<BatchDetail>,
) -> Result<String, Problem> {
    let (id, decision) = (&*resolve.id, decision(resolve));
    let holds = |now: &str, is_watched| match &before {
        Some(before) => {
            let holds = outcome::what_holds(before, decision, is_watched);
            format!("{now}\n{holds}")
        }
        None => now.to_owned(),
    };
    let was_stranded = matches!(&before, Some(before) if before.state == BatchState::Stranded);
    let mut looks = 0;
    loop {
        let said = match client.ask(Method::GET, &page(id), None).await {
            Err(Problem::Unknown(over)) => {
                return Ok(holds(&ended(id, decision, &over, was_stranded), false));
            }
            Err(problem) => return Err(Problem::Decided(Box::new(problem), id.to_owned())),
            Ok(said) => said,
        };
        let batch: BatchDetail = read(client, said)?;
        // Its tables are free, and the gateway only watches for what may still arrive.
        if batch.state == BatchState::Watching {
            let now = format!("decision carried out: batch {id} needs nothing more");
            return Ok(holds(&now, true));
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

/// Returns the end of a batch in words. `over` is what the gateway says about it.
fn ended(id: &str, decision: Decision, over: &str, was_stranded: bool) -> String {
    if was_stranded {
        return format!("decision carried out: batch {id} is finished, as it was");
    }
    if decision == Decision::Commit && over.ends_with("it was aborted") {
        return format!(
            "decision carried out: batch {id} is finished. It had been aborted already and was not committed; \
             the decision was only about what was not rolled back"
        );
    }
    format!("decision carried out: {over}")
}

fn decision(resolve: &Resolve) -> Decision {
    if resolve.commit {
        Decision::Commit
    } else {
        Decision::Abort
    }
}

fn request(resolve: &Resolve) -> Result<ResolveRequest, Problem> {
    let user = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    let who = resolve.who.clone();
    let who = who.or_else(|| user("USER")).or_else(|| user("LOGNAME"));
    Ok(ResolveRequest {
        decision: decision(resolve),
        who: who.ok_or(Problem::Nobody)?,
        why: resolve.why.clone(),
    })
}

fn page(id: &str) -> String {
    format!("/batches/{}", utf8_percent_encode(id, SEGMENT))
}

fn read<T: serde::de::DeserializeOwned>(client: &Client, said: Value) -> Result<T, Problem> {
    serde_json::from_value(said).map_err(|_| client.stranger())
}
