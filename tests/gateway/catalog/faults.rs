//! Faults that a test orders: for which call of which operation, and which fault.
//!
//! A [`Gate`] stops a call at a known point until the test opens it, so that no test needs to sleep.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// The time after which a test gives up on an event that must happen: a backstop, never a measure.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// A fault of one call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Resets the connection; the operation is not executed.
    ResetBefore,
    /// Executes the operation, then resets the connection without an answer.
    ResetAfter,
    /// Answers this status and body; the operation is not executed.
    Instead(u16, &'static str),
    /// Executes the operation, but answers this status and body.
    DoneBut(u16, &'static str),
    /// Executes the operation, then breaks the connection in the middle of the answer's body.
    HalfAnswer,
    /// Executes the operation after this delay.
    Late(Duration),
    /// Stops at the gate, and executes the operation once it opens.
    HoldBefore(Gate),
    /// Executes the operation, then stops at the gate, and answers once it opens.
    HoldAfter(Gate),
}

/// A body that is no answer of the contract, whatever its status says.
pub const GARBAGE: &str = "<html>{\"version\":";

/// An error body as catalogs write it.
pub const BROKEN: &str = r#"{"error":"disk on fire","code":18}"#;

/// A point at which calls wait until the test opens it.
#[derive(Clone, Debug)]
pub struct Gate(Arc<(watch::Sender<usize>, watch::Sender<bool>)>);

impl Gate {
    pub fn new() -> Self {
        Self(Arc::new((watch::Sender::new(0), watch::Sender::new(false))))
    }

    /// Waits until `calls` calls have reached the gate.
    pub async fn reached(&self, calls: usize) {
        let mut arrived = self.0.0.subscribe();
        let waited = tokio::time::timeout(PATIENCE, arrived.wait_for(|&seen| seen >= calls)).await;
        assert!(waited.is_ok(), "no {calls} calls came to the gate");
    }

    /// Lets all calls pass, those that wait and those that come later.
    pub fn open(&self) {
        self.0.1.send_replace(true);
    }

    pub async fn pass(&self) {
        self.0.0.send_modify(|arrived| *arrived += 1);
        let mut open = self.0.1.subscribe();
        let _ = open.wait_for(|&open| open).await;
    }
}

/// A fault for `calls` calls, from the `first` matching one on.
pub(super) struct Order {
    pub operation: &'static str,
    pub table: Option<Vec<String>>,
    pub first: usize,
    pub calls: usize,
    pub fault: Fault,
    pub seen: usize,
}

/// The orders in force.
#[derive(Default)]
pub(super) struct Orders(pub Vec<Order>);

impl Orders {
    /// Returns the faults of this call, in the order in which they were ordered.
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
