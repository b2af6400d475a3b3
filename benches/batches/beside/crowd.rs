//! Plain requests from many clients at a time through the program, each client its next one at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::plain::{CLIENTS, Plain};
use crate::program::{Client, Program};

/// Clients that ask until they are told to stop.
pub struct Crowd {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: JoinSet<()>,
}

impl Crowd {
    /// Begins, one connection a client; all kinds in turn.
    pub async fn begin(program: &Program) -> Self {
        let mut crowd = Self {
            over: Arc::default(),
            done: Arc::default(),
            clients: JoinSet::new(),
        };
        for number in 0..CLIENTS {
            let mut client = Client::connect(program.address).await;
            let (over, done) = (Arc::clone(&crowd.over), Arc::clone(&crowd.done));
            crowd.clients.spawn(async move {
                let asked = Plain::ALL.map(|kind| (kind, kind.target(number)));
                for (kind, target) in asked.iter().cycle() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let headers = [("content-type", kind.content_type())];
                    client.send(target, &headers, kind.body()).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        crowd
    }

    /// How many were answered so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Ends.
    pub async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
    }
}
