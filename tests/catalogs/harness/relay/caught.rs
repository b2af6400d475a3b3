//! A request that a relay has stopped. The test decides its fate.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use serde_json::Value;

use super::{Message, deliver};
use crate::harness::PATIENCE;

/// A caught request, once it has come; clones are the same request.
///
/// The gateway waits until it is cut off or answered, or until it gives up. That does not end the request: the test can
/// deliver it as late as it likes.
#[derive(Clone)]
pub struct Caught {
    catalog: SocketAddr,
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    request: Option<Message>,
    /// The answer for the gateway; `Some(None)` closes its connection.
    answer: Option<Option<Message>>,
}

impl Caught {
    pub(super) fn new(catalog: SocketAddr) -> Self {
        Self {
            catalog,
            shared: Arc::default(),
        }
    }

    /// Keeps a request. Returns the answer for the gateway; `None` closes its connection.
    pub(super) fn hold(&self, request: Message) -> Option<Message> {
        let mut state = self.state();
        state.request = Some(request);
        self.shared.1.notify_all();
        let waits = |state: &mut State| state.answer.is_none();
        let waited = self.shared.1.wait_timeout_while(state, PATIENCE, waits);
        waited.unwrap().0.answer.take()?
    }

    /// Returns true if the request has come.
    pub fn has_come(&self) -> bool {
        self.state().request.is_some()
    }

    /// Waits until the request has come.
    pub fn wait(&self) -> &Self {
        drop(self.request());
        self
    }

    /// Returns the request's body, which must be JSON.
    pub fn body(&self) -> Value {
        serde_json::from_slice(self.request().content()).unwrap()
    }

    /// Closes the gateway's connection, so that it does not learn the result.
    pub fn cut(&self) -> &Self {
        self.tell(None)
    }

    /// Answers the gateway with this status, whatever the catalog has done.
    pub fn refuse(&self, status: u16) -> &Self {
        self.tell(Some(Message::refusal(status)))
    }

    /// Delivers the request to the catalog and returns its answer. The gateway gets nothing.
    pub fn deliver(&self) -> Message {
        let request = self.request();
        deliver(self.catalog, &request).unwrap_or_else(|error| panic!("{}: {error}", request.start))
    }

    /// Lets the request pass as if it had never been stopped. Returns the status.
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
