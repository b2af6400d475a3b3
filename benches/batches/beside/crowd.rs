//! Plain requests from many clients at a time through the program. Each client sends its next
//! request at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::plain::{CLIENTS, Plain};
use crate::program::{Client, Program};

/// Clients that send requests until they are stopped.
pub struct Crowd {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: JoinSet<()>,
}

impl Crowd {
    /// Starts the clients, each with one connection; the kinds of requests take turns.
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

    /// Returns the number of answers so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Stops the clients.
    pub async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
    }
}
