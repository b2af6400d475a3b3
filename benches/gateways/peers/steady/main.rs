//! The latency of requests: the load for a party, and the catalog behind it, in one thread that never sleeps meanwhile.
//!
//! usage: steady PORT
//!
//! Two processes on one core wait for each other's time slices, which would dominate the slowest requests. Here every
//! event is processed at once: the party's answers first, then the requests that are due, then one request of the party
//! to its catalog, and so on.
//!
//! The program listens on 127.0.0.1 as the catalog, and answers every request with the same description of a table. But
//! `POST /load?port=8080&connections=64&rate=20000&seconds=3` starts a load, which sends the body unchanged to that
//! port; the answer contains the results (see `Load`).

mod http;
mod load;
mod wire;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};

use http::Asked;
use load::{Load, Plan};
use wire::Wire;

type Failure = Box<dyn std::error::Error>;

const LISTENER: Token = Token(0);
/// The largest number of connections, from the party and from the client that requests a load.
const CONNECTIONS: usize = 4096;

struct Steady {
    poll: Poll,
    listener: TcpListener,
    peers: HashMap<Token, Wire>,
    /// The token of the connection that was accepted last; none is used twice.
    token: usize,
    /// The running load, and the connection that waits for its end.
    load: Option<(Token, Load)>,
    /// The answer to every request.
    description: Vec<u8>,
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port] = words.as_slice() else {
        return Err("usage: steady PORT".into());
    };
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?));
    let (poll, mut listener) = (Poll::new()?, TcpListener::bind(at)?);
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    Steady {
        poll,
        listener,
        peers: HashMap::new(),
        token: LISTENER.0,
        load: None,
        description: http::description(),
    }
    .run()
}

impl Steady {
    fn run(mut self) -> Result<(), Failure> {
        // One event at a time: the load gets a turn after each.
        let mut events = Events::with_capacity(1);
        loop {
            self.load_on();
            let patience = self.load.as_ref().map(|_| Duration::ZERO);
            match self.poll.poll(&mut events, patience) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                if event.token() == LISTENER {
                    self.accept()?;
                } else {
                    self.hear(event);
                }
            }
        }
    }

    /// Runs one turn of the load, and sends the results if it was the last.
    fn load_on(&mut self) {
        let Some((asker, load)) = &mut self.load else {
            return;
        };
        let asker = *asker;
        let Some(end) = load.turn().transpose() else {
            return;
        };
        self.load = None;
        self.tell(asker, end);
    }

    fn accept(&mut self) -> Result<(), Failure> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The connection was closed before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error.into()),
            };
            if self.peers.len() == CONNECTIONS {
                eprintln!("more than {CONNECTIONS} connections: one was closed");
                continue;
            }
            self.token += 1;
            let token = Token(self.token);
            stream.set_nodelay(true)?;
            self.poll
                .registry()
                .register(&mut stream, token, Interest::READABLE)?;
            self.peers.insert(token, Wire::new(stream));
        }
    }

    fn hear(&mut self, event: &Event) {
        let token = event.token();
        let Some(wire) = self.peers.get_mut(&token) else {
            return;
        };
        let open = wire.read(event.is_read_closed());
        match open.and_then(|open| Ok(self.answer(token)? && open)) {
            Ok(true) => {}
            Ok(false) => self.close(token),
            Err(error) => {
                eprintln!("a connection was closed: {error}");
                self.tell(token, Err(error));
                self.close(token);
            }
        }
    }

    /// Answers all complete requests; returns false if the connection must be closed.
    fn answer(&mut self, token: Token) -> Result<bool, String> {
        while let Some(wire) = self.peers.get_mut(&token) {
            let Some(Asked {
                whole,
                body,
                plan,
                last,
            }) = http::request(wire.input())?
            else {
                return Ok(true);
            };
            let Some(query) = plan else {
                wire.take(whole);
                wire.write(&self.description)?;
                if last {
                    return Ok(false);
                }
                continue;
            };
            if self.load.is_some() {
                return Err("a load is running".to_owned());
            }
            let plan = Plan::read(query, &wire.input()[body..whole])?;
            wire.take(whole);
            self.load = Some((token, Load::start(plan)?));
        }
        Ok(true)
    }

    /// Sends the end of a load, or an error; ignores a connection that is closed.
    fn tell(&mut self, asker: Token, end: Result<String, String>) {
        let Some(wire) = self.peers.get_mut(&asker) else {
            return;
        };
        let answer = match end {
            Ok(text) => http::answer("200 OK", &text),
            Err(error) => http::answer("400 Bad Request", &http::error(&error)),
        };
        if wire.write(&answer).is_err() {
            self.close(asker);
        }
    }

    fn close(&mut self, token: Token) {
        self.peers.remove(&token);
        // Stops a load whose client has disconnected.
        if self.load.as_ref().is_some_and(|(asker, _)| *asker == token) {
            self.load = None;
        }
    }
}
