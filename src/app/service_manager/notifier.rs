//! The gateway's states for the service manager: told by a thread of its own, because one that does not read would hold
//! up the thread that tells it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

/// The most messages that wait for a service manager that does not read. The oldest one is lost then: the newest state
/// is the true one.
const MOST_WAITING: usize = 16;
/// The longest time that the end of the process waits until the last messages are sent.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// States that are told together.
type Message = Vec<NotifyState<'static>>;

/// Tells the service manager, if it wants to know. Never waits for it. Cheap to clone.
#[derive(Clone)]
pub(in crate::app) struct Notifier(Option<Arc<Shared>>);

#[derive(Default)]
struct Shared {
    unsent: Mutex<Unsent>,
    changed: Condvar,
}

/// The messages that are not sent yet.
#[derive(Default)]
struct Unsent {
    /// The messages that wait, the oldest first.
    waiting: VecDeque<Message>,
    /// True if a sign of life waits. One is enough.
    is_alive: bool,
    /// The message that the thread sends now.
    sending: Option<Message>,
}

impl Notifier {
    /// Starts the thread; without `NOTIFY_SOCKET`, there is nobody to tell.
    pub(in crate::app) fn start() -> io::Result<Self> {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Ok(Self(None));
        }
        let shared = Arc::<Shared>::default();
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("notify".to_owned());
        thread.spawn(move || own.send())?;
        Ok(Self(Some(shared)))
    }

    /// Tells that the gateway serves, and from now on that it is alive.
    pub(in crate::app) fn ready(&self) {
        if let (Some(shared), Some(limit)) = (&self.0, sd_notify::watchdog_enabled()) {
            tokio::spawn(Arc::clone(shared).show_life(limit / 2));
        }
        self.tell(vec![NotifyState::Ready]);
    }

    /// Tells that a reload begins; [`Notifier::reloaded`] must follow.
    pub(in crate::app) fn reloading(&self) {
        // Version 253 needs the time of the clock beside it, to tell this reload from an earlier one.
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            self.tell(vec![NotifyState::Reloading, now]);
        }
    }

    /// Tells that a reload is over, whatever its result.
    pub(in crate::app) fn reloaded(&self) {
        self.tell(vec![NotifyState::Ready]);
    }

    /// Tells that the gateway drains and ends.
    pub(in crate::app) fn stopping(&self) {
        self.tell(vec![NotifyState::Stopping]);
    }

    /// Waits, a second at most, until all is sent.
    pub(in crate::app) fn end(&self) {
        let Some(shared) = &self.0 else { return };
        let is_unsent = |unsent: &mut Unsent| !unsent.messages().is_empty();
        let waited = shared
            .changed
            .wait_timeout_while(shared.lock(), LAST_WORDS, is_unsent);
        let (unsent, _) = waited.unwrap_or_else(PoisonError::into_inner);
        for message in unsent.messages() {
            lost(message);
        }
    }

    fn tell(&self, message: Message) {
        let Some(shared) = &self.0 else { return };
        let oldest = shared.lock().add(message);
        shared.changed.notify_all();
        if let Some(oldest) = oldest {
            lost(&oldest);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends all messages, one after the other, until the process ends.
    fn send(&self) {
        loop {
            let is_empty = |unsent: &mut Unsent| unsent.take().is_none();
            let taken = self.changed.wait_while(self.lock(), is_empty);
            let message = taken
                .unwrap_or_else(PoisonError::into_inner)
                .sending
                .clone();
            if let Err(cause) = sd_notify::notify(&message.unwrap_or_default()) {
                tracing::warn!(%cause, "cannot notify the service manager at NOTIFY_SOCKET");
            }
            self.lock().sending = None;
            self.changed.notify_all();
        }
    }

    /// Runs on a worker, so that a process whose first worker hangs is restarted.
    async fn show_life(self: Arc<Self>, every: Duration) {
        let mut rounds = interval(every.max(Duration::from_millis(1)));
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            self.lock().is_alive = true;
            self.changed.notify_all();
        }
    }
}

impl Unsent {
    /// Adds a message, and returns the oldest one if there is no room for it any more.
    fn add(&mut self, message: Message) -> Option<Message> {
        self.waiting.push_back(message);
        (self.waiting.len() > MOST_WAITING).then(|| self.waiting.pop_front())?
    }

    /// Takes the next message to send: a state before a sign of life.
    fn take(&mut self) -> Option<&Message> {
        self.sending = self.waiting.pop_front().or_else(|| {
            let is_alive = std::mem::take(&mut self.is_alive);
            is_alive.then(|| vec![NotifyState::Watchdog])
        });
        self.sending.as_ref()
    }

    /// The messages that are not sent yet, without signs of life.
    fn messages(&self) -> Vec<&Message> {
        let is_state = |message: &&Message| !matches!(message[..], [NotifyState::Watchdog]);
        let all = self.sending.iter().chain(&self.waiting);
        all.filter(is_state).collect()
    }
}

/// Logs a message that the service manager does not get.
fn lost(message: &Message) {
    let states: Vec<String> = message.iter().map(ToString::to_string).collect();
    tracing::warn!(
        states = states.join(" "),
        "the service manager does not read NOTIFY_SOCKET, and was not told the state"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(message: Option<&Message>) -> String {
        let states = message.into_iter().flatten();
        states.map(ToString::to_string).collect()
    }

    #[test]
    fn the_newest_states_wait_and_one_sign_of_life() {
        let mut unsent = Unsent::default();
        for _ in 0..MOST_WAITING / 2 {
            assert!(unsent.add(vec![NotifyState::Reloading]).is_none());
            assert!(unsent.add(vec![NotifyState::Ready]).is_none());
            unsent.is_alive = true;
        }
        let oldest = unsent.add(vec![NotifyState::Stopping]);
        assert_eq!(text(oldest.as_ref()), "RELOADING=1");
        assert_eq!(text(unsent.take()), "READY=1");
        assert_eq!(unsent.messages().len(), MOST_WAITING);
        for _ in 2..MOST_WAITING {
            unsent.take();
        }
        assert_eq!(text(unsent.take()), "STOPPING=1");
        assert_eq!(text(unsent.take()), "WATCHDOG=1");
        assert!(unsent.messages().is_empty(), "it is no state");
        assert!(unsent.take().is_none());
    }
}
