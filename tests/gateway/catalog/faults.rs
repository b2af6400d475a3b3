//! Misbehaviour on command: which call of which operation, and what happens to it.
//!
//! A [`Gate`] stops a call at a known point until the test lets it go on, so that no test needs to sleep.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How long a test waits for what must happen before it gives up: a backstop, never a measure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What becomes of a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection is reset and nothing is done.
    ResetBefore,
    /// It is done, and the connection is reset without an answer.
    ResetAfter,
    /// Answered with this status and body, and nothing is done.
    Instead(u16, &'static str),
    /// It is done, and this is answered.
    DoneBut(u16, &'static str),
    /// It is done, and the connection breaks in the middle of the answer's body.
    HalfAnswer,
    /// It is done so much later.
    Late(Duration),
    /// Stops at the gate; nothing is done before it opens.
    HoldBefore(Gate),
    /// Is done and then stops at the gate; no answer before it opens.
    HoldAfter(Gate),
}

/// Not an answer of the contract, whatever its status says.
pub const GARBAGE: &str = "<html>{\"version\":";

/// `error` body as catalogs write it.
pub const BROKEN: &str = r#"{"error":"disk on fire","code":18}"#;

/// A point that calls reach and pass only once it is open.
#[derive(Clone, Debug)]
pub struct Gate(Arc<(watch::Sender<usize>, watch::Sender<bool>)>);

impl Gate {
    pub fn new() -> Self {
        Self(Arc::new((watch::Sender::new(0), watch::Sender::new(false))))
    }

    /// Waits until `calls` calls have come to the gate.
    pub async fn reached(&self, calls: usize) {
        let mut arrived = self.0.0.subscribe();
        let waited = tokio::time::timeout(PATIENCE, arrived.wait_for(|&seen| seen >= calls)).await;
        assert!(waited.is_ok(), "no {calls} calls came to the gate");
    }

    /// Lets everybody pass, now and later.
    pub fn open(&self) {
        self.0.1.send_replace(true);
    }

    pub async fn pass(&self) {
        self.0.0.send_modify(|arrived| *arrived += 1);
        let mut open = self.0.1.subscribe();
        let _ = open.wait_for(|&open| open).await;
    }
}

/// One order: from the `first` matching call on, `calls` times.
pub(super) struct Order {
    pub operation: &'static str,
    pub table: Option<Vec<String>>,
    pub first: usize,
    pub calls: usize,
    pub fault: Fault,
    pub seen: usize,
}

/// All orders in force.
#[derive(Default)]
pub(super) struct Orders(pub Vec<Order>);

impl Orders {
    /// What happens to this call, in the order in which it was commanded.
    pub fn take(&mut self, operation: &str, table: &[String]) -> Vec<Fault> {
        let mut faults = Vec::new();
        for order in &mut self.0 {
            let named = order.table.as_ref().is_none_or(|named| named == table);
            if order.operation == operation && named {
                order.seen += 1;
                let last = order.first.saturating_add(order.calls);
                if order.seen >= order.first && order.seen < last {
                    faults.push(order.fault.clone());
                }
            }
        }
        faults
    }
}
