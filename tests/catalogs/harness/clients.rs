//! Real clients in one process of their own, which carry out orders.

use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use super::{PATIENCE, Process};

/// A script that reads orders, one line of JSON each, and answers each with a line `answer N {…}`.
pub struct Clients {
    process: Process,
    orders: Mutex<usize>,
}

/// An order that is under way.
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

    /// Orders something and waits for the answer.
    pub fn order(&self, order: &Value) -> Value {
        self.begin(order).finish()
    }

    /// Orders something.
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
    /// Waits for the answer.
    pub fn finish(self) -> Value {
        // The waits inside the script have limits of their own, and explain more when they run out.
        let mark = format!("answer {} ", self.number);
        let answer = self.process.line_within(&mark, PATIENCE * 5);
        serde_json::from_str(&answer).unwrap()
    }
}
