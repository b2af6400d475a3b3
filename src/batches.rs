//! `nsgate batches`: what the admin address of a running gateway says of its batches, in words for a person.

mod client;
mod words;

use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::runtime::Builder;

use crate::cli::{Batches, OfBatches};
use client::{Client, Problem};

/// What a batch's name has beside letters and digits.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-');

/// Does what was asked and answers with what is to be printed.
///
/// # Errors
/// The gateway cannot be asked, or says no.
pub(crate) fn run(asked: &Batches) -> Result<String, Problem> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(Problem::Runtime)?;
    let client = Client::new(&asked.admin, asked.token.as_ref())?;
    runtime.block_on(answer(asked, &client))
}

async fn answer(asked: &Batches, client: &Client) -> Result<String, Problem> {
    let said = match &asked.what {
        OfBatches::List => client.ask(Method::GET, "/batches", None).await?,
        OfBatches::Show { id } => client.ask(Method::GET, &page(id), None).await?,
    };
    if asked.json {
        return Ok(format!("{said:#}"));
    }
    let admin = client.admin();
    match &asked.what {
        OfBatches::List => Ok(words::list(&read(client, said)?, admin)),
        OfBatches::Show { .. } => Ok(words::show(&read(client, said)?, admin)),
    }
}

fn page(id: &str) -> String {
    format!("/batches/{}", utf8_percent_encode(id, SEGMENT))
}

fn read<T: serde::de::DeserializeOwned>(client: &Client, said: Value) -> Result<T, Problem> {
    serde_json::from_value(said).map_err(|_| client.stranger())
}
