//! Room for a new connection: below the bound, or in the place of the oldest connection.

use tokio::task::Id;

use super::{Connections, OpenConnection};
use crate::server::connection::Directive;

impl<S> Connections<S> {
    /// True if another connection can be accepted. One that was told to end takes a moment to do so: as many may be
    /// ending as may be open.
    pub(super) fn has_room(&self) -> bool {
        let serving = self.serving.load();
        let most = serving.connections;
        self.tasks.len() < most || serving.makes_room && self.tasks.len() < 2 * most
    }

    /// Ends the oldest connection if room is to be made for a new one: there are as many as may be open.
    pub(super) fn make_room(&mut self) {
        let serving = self.serving.load();
        if !serving.makes_room || self.watched.len() < serving.connections {
            return;
        }
        let age = |(_, one): &(&Id, &OpenConnection)| (one.state.is_serving(), one.opened);
        let oldest = self.watched.iter().min_by_key(age).map(|(id, _)| *id);
        if let Some(old) = oldest.and_then(|id| self.watched.remove(&id)) {
            self.workers.ended(old.worker);
            old.state.order(Directive::Abort);
        }
    }
}
