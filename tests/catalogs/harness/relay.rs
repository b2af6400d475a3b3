//! A relay between gateway and catalog that delays, loses or repeats single requests.

mod caught;
mod message;

use std::collections::VecDeque;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::PATIENCE;
pub use caught::Caught;
pub use message::Message;

/// The maximum number of open connections. One more is closed at once.
const CONNECTIONS: usize = 1024;
/// The maximum number of messages that a relay remembers.
const LINES: usize = 20_000;
const BRIEF: usize = 400;

/// The fault of a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The catalog does not get the request. The gateway's connection is closed.
    Drop,
    /// The catalog acts. The gateway's connection is closed.
    LoseAnswer,
    /// The catalog gets the request twice. The gateway gets the first answer.
    Twice,
    /// The catalog does not get the request. The gateway gets this status.
    Refuse(u16),
    /// The catalog acts. The gateway gets this status.
    ActAndRefuse(u16),
    /// The test decides.
    Catch(Caught),
}

/// The delays of a request on its way to the catalog, and of the answer on its way back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay {
    pub request: Duration,
    pub answer: Duration,
}

type Delays = Box<dyn FnMut(&Message) -> Delay + Send>;

/// A relay that passes HTTP/1.1 messages on, except for the faults that a test sets.
///
/// A delayed request is delivered on a connection of its own, whether or not the gateway still waits for it.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    catalog: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    delays: Option<Delays>,
    connections: usize,
    /// The number of requests under way, except the caught ones.
    pending: usize,
    /// The last requests and answers.
    seen: VecDeque<String>,
}

struct Rule {
    suffix: String,
    /// The first and the last matching request that the rule applies to, counted from 1.
    which: (usize, usize),
    /// The number of matching requests so far.
    count: usize,
    fault: Fault,
}

impl Relay {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            catalog: SocketAddr::from(([127, 0, 0, 1], port)),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for gateway in listener.incoming().flatten() {
                accepting.clone().accept(gateway);
            }
        });
        Self { address, shared }
    }

    pub fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets a fault for each request whose path ends with `suffix`.
    pub fn fault(&self, suffix: &str, fault: Fault) {
        self.rule(suffix, (1, usize::MAX), fault);
    }

    /// Sets a fault for the `nth` request from now on, counted from 1, whose path ends with `suffix`.
    pub fn fault_once(&self, suffix: &str, nth: usize, fault: Fault) {
        self.rule(suffix, (nth, nth), fault);
    }

    /// Catches the next request whose path ends with `suffix`.
    pub fn catch(&self, suffix: &str) -> Caught {
        self.catch_nth(suffix, 1)
    }

    /// Catches the `nth` request from now on, counted from 1, whose path ends with `suffix`.
    pub fn catch_nth(&self, suffix: &str, nth: usize) -> Caught {
        let caught = Caught::new(self.shared.catalog);
        self.fault_once(suffix, nth, Fault::Catch(caught.clone()));
        caught
    }

    /// Catches the `nth` request as `catch_nth` does, and drops the later ones.
    pub fn catch_only(&self, suffix: &str, nth: usize) -> Caught {
        let caught = self.catch_nth(suffix, nth);
        self.rule(suffix, (nth + 1, usize::MAX), Fault::Drop);
        caught
    }

    /// Clears the faults. Requests that were caught stay caught.
    pub fn pass(&self) {
        self.shared.state.lock().unwrap().rules.clear();
    }

    /// Sets the delays of requests.
    pub fn delay(&self, delays: impl FnMut(&Message) -> Delay + Send + 'static) {
        self.shared.state.lock().unwrap().delays = Some(Box::new(delays));
    }

    /// Ends the delays.
    pub fn hurry(&self) {
        self.shared.state.lock().unwrap().delays = None;
    }

    /// Returns the number of requests under way, delayed ones included.
    pub fn pending(&self) -> usize {
        self.shared.state.lock().unwrap().pending
    }

    /// Waits until no request is under way.
    pub fn wait_until_idle(&self) {
        let state = self.shared.state.lock().unwrap();
        let waits = |state: &mut State| state.pending > 0;
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, PATIENCE, waits);
        let pending = waited.unwrap().0.pending;
        assert_eq!(pending, 0, "requests are still under way");
    }

    /// Returns the last requests and answers, for the message of a failing test.
    pub fn seen(&self) -> Vec<String> {
        let state = self.shared.state.lock().unwrap();
        state.seen.iter().cloned().collect()
    }

    fn rule(&self, suffix: &str, which: (usize, usize), fault: Fault) {
        self.shared.state.lock().unwrap().rules.push(Rule {
            suffix: suffix.to_owned(),
            which,
            count: 0,
            fault,
        });
    }
}

impl Shared {
    fn accept(self: Arc<Self>, gateway: TcpStream) {
        let mut state = self.state.lock().unwrap();
        if state.connections == CONNECTIONS {
            return;
        }
        state.connections += 1;
        drop(state);
        thread::spawn(move || {
            // A gateway must cope with a broken connection, so the error is ignored.
            let _ = self.serve(gateway);
            self.state.lock().unwrap().connections -= 1;
        });
    }

    fn serve(&self, mut gateway: TcpStream) -> io::Result<()> {
        gateway.set_nodelay(true)?;
        let mut requests = BufReader::new(gateway.try_clone()?);
        let mut own = None;
        while let Some(request) = Message::request(&mut requests)? {
            let (fault, delay) = self.begin(&request);
            let answer = match fault {
                Some(Fault::Catch(caught)) => {
                    self.end();
                    Ok(caught.hold(request))
                }
                fault => {
                    let answer = self.answer(&request, fault.as_ref(), delay, &mut own);
                    self.end();
                    answer
                }
            };
            let Some(answer) = answer? else {
                return Ok(());
            };
            gateway.write_all(&answer.bytes)?;
            if answer.closes() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the fault and the delay of a request.
    fn begin(&self, request: &Message) -> (Option<Fault>, Delay) {
        let mut state = self.state.lock().unwrap();
        state.pending += 1;
        state.saw(&format!("{} {}", request.start, brief(request)));
        let delays = state.delays.as_mut();
        let delay = delays.map_or(Delay::default(), |delays| delays(request));
        let applying = state
            .rules
            .iter_mut()
            .filter_map(|rule| rule.meets(request));
        // Every rule counts this request, even if another one applies.
        let applying: Vec<_> = applying.collect();
        (applying.into_iter().next(), delay)
    }

    fn end(&self) {
        self.state.lock().unwrap().pending -= 1;
        self.changed.notify_all();
    }

    /// Records the catalog's answer to a request.
    fn note(&self, request: &Message, answer: io::Result<Message>) -> io::Result<Message> {
        let said = match &answer {
            Ok(answer) => format!("{} {}", answer.start, brief(answer)),
            Err(error) => error.to_string(),
        };
        let mut state = self.state.lock().unwrap();
        state.saw(&format!("   {} was answered {said}", request.start));
        answer
    }

    /// Returns the answer for the gateway; `None` closes its connection.
    fn answer(
        &self,
        request: &Message,
        fault: Option<&Fault>,
        delay: Delay,
        own: &mut Option<BufReader<TcpStream>>,
    ) -> io::Result<Option<Message>> {
        sleep(delay.request);
        let alone = || self.note(request, deliver(self.catalog, request));
        let answer = match fault {
            Some(Fault::Drop) => None,
            Some(Fault::LoseAnswer) => alone().map(|_| None)?,
            Some(Fault::Twice) => {
                let first = alone()?;
                alone().map(|_| Some(first))?
            }
            Some(Fault::Refuse(status)) => Some(Message::refusal(*status)),
            Some(Fault::ActAndRefuse(status)) => {
                alone().map(|_| Some(Message::refusal(*status)))?
            }
            _ if delay.request.is_zero() => Some(self.note(request, self.exchange(request, own))?),
            _ => Some(alone()?),
        };
        sleep(delay.answer);
        Ok(answer)
    }

    /// Sends a request on the connection that belongs to the gateway's.
    fn exchange(
        &self,
        request: &Message,
        own: &mut Option<BufReader<TcpStream>>,
    ) -> io::Result<Message> {
        let mut catalog = match own.take() {
            Some(catalog) => catalog,
            None => connect(self.catalog)?,
        };
        catalog.get_mut().write_all(&request.bytes)?;
        let answer = Message::answer(&mut catalog, request)?;
        if !answer.closes() {
            *own = Some(catalog);
        }
        Ok(answer)
    }
}

impl State {
    fn saw(&mut self, line: &str) {
        if self.seen.len() == LINES {
            self.seen.pop_front();
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.seen
            .push_back(format!("{:.3} {line}", now.as_secs_f64()));
    }
}

/// Returns the beginning of a body that is text.
fn brief(message: &Message) -> String {
    let content = message.content();
    let text = String::from_utf8_lossy(&content[..content.len().min(BRIEF)]);
    text.chars().filter(|it| !it.is_control()).collect()
}

impl Rule {
    fn meets(&mut self, request: &Message) -> Option<Fault> {
        if !request.path().ends_with(&self.suffix) {
            return None;
        }
        self.count += 1;
        let (first, last) = self.which;
        (first..=last)
            .contains(&self.count)
            .then(|| self.fault.clone())
    }
}

/// Sends a request on a connection of its own.
fn deliver(catalog: SocketAddr, request: &Message) -> io::Result<Message> {
    let mut catalog = connect(catalog)?;
    catalog.get_mut().write_all(&request.bytes)?;
    Message::answer(&mut catalog, request)
}

fn connect(catalog: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let catalog = TcpStream::connect(catalog)?;
    catalog.set_nodelay(true)?;
    catalog.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(catalog))
}
