//! A relay between gateway and catalog that can stop a version's creation half way.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use super::PATIENCE;

/// What is held back when the gateway asks to create a version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Held {
    /// The request: the catalog never hears of it.
    Request,
    /// The answer: the catalog has done it, the gateway never learns.
    Answer,
}

/// Passes bytes on, until it is told to hold.
pub struct Relay {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    hold: Option<Held>,
    holding: bool,
}

impl Relay {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                connect(client, server, &shared);
            }
        });
        Self { address, state }
    }

    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, holds what creates a version.
    pub fn hold(&self, what: Held) {
        self.state.0.lock().unwrap().hold = Some(what);
    }

    /// Returns once something is held.
    pub fn wait_until_holding(&self) {
        let state = self.state.0.lock().unwrap();
        let holds = self
            .state
            .1
            .wait_timeout_while(state, PATIENCE, |state| !state.holding);
        assert!(holds.unwrap().0.holding, "no version was asked for");
    }

    /// Cuts the connection that is held; the next ones pass.
    pub fn cut(&self) {
        *self.state.0.lock().unwrap() = State::default();
        self.state.1.notify_all();
    }
}

fn connect(client: TcpStream, server: TcpStream, shared: &Arc<(Mutex<State>, Condvar)>) {
    let (client_reads, server_reads) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let creating = Arc::new(Mutex::new(false));
    let (seen, state) = (creating.clone(), shared.clone());
    std::thread::spawn(move || {
        pump(client_reads, server, |bytes| {
            let creates = bytes.windows(15).any(|part| part == b"/version/create");
            *seen.lock().unwrap() |= creates;
            !creates || passes(&state, Held::Request)
        })
    });
    let state = shared.clone();
    std::thread::spawn(move || {
        pump(server_reads, client, |_| {
            !*creating.lock().unwrap() || passes(&state, Held::Answer)
        })
    });
}

/// Waits while `what` is to be held; false where it was, and is not to be passed on.
fn passes(shared: &(Mutex<State>, Condvar), what: Held) -> bool {
    let mut state = shared.0.lock().unwrap();
    if state.hold != Some(what) {
        return true;
    }
    state.holding = true;
    shared.1.notify_all();
    drop(
        shared
            .1
            .wait_while(state, |state| state.hold.is_some())
            .unwrap(),
    );
    false
}

fn pump(mut from: TcpStream, mut to: TcpStream, mut pass: impl FnMut(&[u8]) -> bool) {
    let mut copy = || -> io::Result<()> {
        let mut buffer = [0; 64 * 1024];
        loop {
            let read = from.read(&mut buffer)?;
            if read == 0 || !pass(&buffer[..read]) {
                return Ok(());
            }
            to.write_all(&buffer[..read])?;
        }
    };
    let _ = copy();
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
