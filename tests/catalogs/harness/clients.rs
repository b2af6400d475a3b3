//! Real clients in one process of their own, which do what they are ordered to.

use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use super::{PATIENCE, Process};

/// A script that reads orders, each a line of JSON, and answers each with a line `answer N {…}`.
pub struct Clients {
    process: Process,
    orders: Mutex<usize>,
}

/// An order that is being carried out.
#[must_use]
pub struct Ordered<'a> {
    process: &'a Process,
    number: usize,
}

impl Clients {
    pub fn start(command: &mut Command) -> Self {
        Self {
            process: Process::start(command),
            orders: Mutex::new(0),
        }
    }

    /// Has them do something, and waits for what they say of it.
    pub fn order(&self, order: &Value) -> Value {
        self.begin(order).finish()
    }

    /// Has them do something.
    pub fn begin(&self, order: &Value) -> Ordered<'_> {
        let mut orders = self.orders.lock().unwrap();
        let number = *orders;
        *orders += 1;
        self.process.tell(&order.to_string());
        Ordered {
            process: &self.process,
            number,
        }
    }
}

impl Ordered<'_> {
    /// Waits for what they say of it.
    pub fn finish(self) -> Value {
        // What they wait for in it has bounds of its own, and says more when it takes too long.
        let mark = format!("answer {} ", self.number);
        let answer = self.process.line_within(&mark, PATIENCE * 5);
        serde_json::from_str(&answer).unwrap()
    }
}
