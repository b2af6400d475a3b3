//! A request that a relay has stopped, until the test says what becomes of it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use serde_json::Value;

use super::{Message, deliver};
use crate::harness::PATIENCE;

/// A request on its way, once it has come; clones are the same one.
///
/// The gateway waits until it is cut off or answered, or has given up. That does not end the request, which can be
/// delivered as long as the test likes.
#[derive(Clone)]
pub struct Caught {
    catalog: SocketAddr,
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    request: Option<Message>,
    /// What the gateway hears; `Some(None)`: its connection is closed.
    answer: Option<Option<Message>>,
}

impl Caught {
    pub(super) fn new(catalog: SocketAddr) -> Self {
        Self {
            catalog,
            shared: Arc::default(),
        }
    }

    /// Keeps a request; what the gateway is to hear, or `None` where its connection is to be closed.
    pub(super) fn hold(&self, request: Message) -> Option<Message> {
        let mut state = self.state();
        state.request = Some(request);
        self.shared.1.notify_all();
        let waits = |state: &mut State| state.answer.is_none();
        let waited = self.shared.1.wait_timeout_while(state, PATIENCE, waits);
        waited.unwrap().0.answer.take()?
    }

    /// Whether the request has come.
    pub fn has_come(&self) -> bool {
        self.state().request.is_some()
    }

    /// Returns once the request has come.
    pub fn wait(&self) -> &Self {
        drop(self.request());
        self
    }

    /// What it asks for, where that is JSON.
    pub fn body(&self) -> Value {
        serde_json::from_slice(self.request().content()).unwrap()
    }

    /// Closes the gateway's connection: it does not learn what became of the request.
    pub fn cut(&self) -> &Self {
        self.tell(None)
    }

    /// Answers the gateway, whatever the catalog has done.
    pub fn refuse(&self, status: u16) -> &Self {
        self.tell(Some(Message::refusal(status)))
    }

    /// Has the catalog do it, and answers what the catalog said. The gateway hears nothing of it.
    pub fn deliver(&self) -> Message {
        let request = self.request();
        deliver(self.catalog, &request).unwrap_or_else(|error| panic!("{}: {error}", request.start))
    }

    /// Lets it go on as if it had never been stopped.
    pub fn pass(&self) -> u16 {
        let answer = self.deliver();
        let status = answer.status();
        self.tell(Some(answer));
        status
    }

    fn tell(&self, answer: Option<Message>) -> &Self {
        drop(self.request());
        self.state().answer = Some(answer);
        self.shared.1.notify_all();
        self
    }

    fn request(&self) -> Message {
        let waits = |state: &mut State| state.request.is_none();
        let state = self.state();
        let waited = self.shared.1.wait_timeout_while(state, PATIENCE, waits);
        let request = waited.unwrap().0.request.clone();
        request.expect("the request that was to be caught never came")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap()
    }
}

impl fmt::Debug for Caught {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let request = state.request.as_ref().map(|request| &request.start);
        to.debug_tuple("Caught").field(&request).finish()
    }
}
