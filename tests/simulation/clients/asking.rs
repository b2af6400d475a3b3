//! Sends requests and interprets the answers.

use nsgate::batch::log::BatchId;
use serde_json::Value;

use super::Client;
use crate::front::{Call, Reply};
use crate::history::{Asked, Outcome};

impl Client {
    pub(super) async fn ask_for_transactions(&mut self) {
        let known: Vec<_> = {
            let inner = self.world.lock();
            let records = inner.ledger.records().iter();
            records.map(|record| record.id).collect()
        };
        if !known.is_empty() {
            let id = *self.random.pick(&known);
            self.transaction(id).await;
        }
    }

    pub async fn transaction(&mut self, id: BatchId) {
        let from = self.world.lock().tick();
        let reply = self
            .post(format!("/v1/transaction/{id}/describe"), "{}".into())
            .await;
        let (status, said) = match reply {
            Reply::Answer { status, body } => (status, field(&body, "status")),
            Reply::Error { status, .. } => (status, None),
            Reply::Broken | Reply::NotSent => return,
        };
        let inner = &mut *self.world.lock();
        // While no gateway has the log, none knows. In the end one must.
        if status == 503 && !inner.calm && self.world.gateways() > 1 {
            return;
        }
        let to = inner.tick();
        let said = said.unwrap_or_default();
        // A batch that was refused is taken out of the log again, and then no gateway knows it.
        let mut records = inner.ledger.records().iter();
        if said.is_empty() && records.all(|record| record.id != id) {
            return;
        }
        let name = inner.ledger.name(id);
        self.world
            .trace(inner, || format!("client: {name} is {status} {said}"));
        inner.history.counts.add("transactions asked for", 1);
        inner.history.transactions.push(Asked {
            id,
            from,
            to,
            status,
            said,
        });
    }

    pub(super) async fn post(&mut self, path: String, body: String) -> Reply {
        let call = Call {
            path,
            body,
            at: self.at,
            patience: self.patience(),
            ..Call::default()
        };
        self.front.ask_somebody(call, &mut self.random).await
    }
}

pub(super) fn path(names: &[String], tail: &str) -> String {
    format!("/v1/table/{}/{tail}", names.join("%24"))
}

pub(super) fn field(body: &[u8], name: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let field = body.get(name)?;
    Some(
        field
            .as_str()
            .map_or_else(|| field.to_string(), str::to_owned),
    )
}

/// Returns what an answer means. For a single create the gateway passes on the catalog's words, and knows no more.
pub(super) fn outcome(reply: &Reply, single: bool) -> Outcome {
    match reply {
        Reply::Answer { status: 200, body } => Outcome::Done(field(body, "transaction_id")),
        Reply::Answer { status, body } if !single || (400..500).contains(status) => {
            let code = field(body, "code").and_then(|code| code.parse().ok());
            Outcome::Definite(*status, code.unwrap_or_default())
        }
        Reply::Error {
            status,
            code,
            transaction: None,
            ..
        } if !single || (400..500).contains(status) => Outcome::Definite(*status, u64::from(*code)),
        Reply::NotSent => Outcome::Definite(0, 0),
        Reply::Answer { .. } | Reply::Error { .. } | Reply::Broken => Outcome::Unknown,
    }
}
