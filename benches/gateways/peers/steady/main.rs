//! How long requests take: the load before a party and the catalog behind it, in one thread that never sleeps meanwhile.
//!
//! usage: steady PORT
//!
//! Two processes on one core wait for each other's slices of it, and that is what the slowest of their requests show.
//! Here whatever comes is taken up at once: the party's answers first, then what is due, then one request that the
//! party has for its catalog, and so on.
//!
//! It listens on 127.0.0.1 as the catalog, and answers every request with the same description of a table. But
//! `POST /load?port=8080&connections=64&rate=20000&seconds=3` starts a load, which sends the body as it is to that port;
//! the answer says what became of it (see `Load`).

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
/// Of the party and of whoever asks for a load.
const CONNECTIONS: usize = 4096;

struct Steady {
    poll: Poll,
    listener: TcpListener,
    peers: HashMap<Token, Wire>,
    /// Of the last connection that was accepted; none is used twice.
    token: usize,
    /// Who asked for it waits for its end.
    load: Option<(Token, Load)>,
    /// What every request is answered.
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
        // One at a time: the load has its turn after each.
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

    /// Gives the load its turn, and says what it came to when that was its last.
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
                // Of a connection that is gone before it was taken.
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

    /// All that was asked as a whole; not, whether the connection goes on.
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

    /// The end of a load, or what was wrong; whoever is gone is not told.
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
        // Nobody waits for its figures any more.
        if self.load.as_ref().is_some_and(|(asker, _)| *asker == token) {
            self.load = None;
        }
    }
}
