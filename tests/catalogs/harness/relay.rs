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

/// Connections that a relay keeps open at a time; one more is closed at once.
const CONNECTIONS: usize = 1024;
/// Lines that a relay remembers of what passed, and the bytes of each body in them.
const LINES: usize = 20_000;
const BRIEF: usize = 400;

/// What becomes of a request instead of being passed on.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The catalog never hears of it; the gateway's connection is closed.
    Drop,
    /// The catalog has done it; the gateway's connection is closed.
    LoseAnswer,
    /// The catalog is asked twice; the gateway hears the first answer.
    Twice,
    /// The catalog never hears of it; the gateway hears this status.
    Refuse(u16),
    /// The catalog has done it; the gateway hears this status.
    ActAndRefuse(u16),
    /// The test decides.
    Catch(Caught),
}

/// How long a request waits on its way to the catalog, and its answer on the way back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay {
    pub request: Duration,
    pub answer: Duration,
}

type Delays = Box<dyn FnMut(&Message) -> Delay + Send>;

/// Passes HTTP/1.1 messages on, but for those that it is told to treat otherwise.
///
/// A request that waits is delivered on a connection of its own, whether or not the gateway still waits for it.
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
    /// Requests that came and are not over, but for those that are caught.
    pending: usize,
    /// The last requests and answers.
    seen: VecDeque<String>,
}

struct Rule {
    suffix: String,
    /// The first and the last of the matching requests that it applies to, counted from 1.
    which: (usize, usize),
    /// Matching requests so far.
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

    /// From now on, this happens to each request whose path ends so.
    pub fn fault(&self, suffix: &str, fault: Fault) {
        self.rule(suffix, (1, usize::MAX), fault);
    }

    /// This happens to the `nth` request from now on, counted from 1, whose path ends so.
    pub fn fault_once(&self, suffix: &str, nth: usize, fault: Fault) {
        self.rule(suffix, (nth, nth), fault);
    }

    /// The next request whose path ends so waits for what the test decides.
    pub fn catch(&self, suffix: &str) -> Caught {
        self.catch_nth(suffix, 1)
    }

    /// The `nth` request from now on, counted from 1, whose path ends so waits for what the test decides.
    pub fn catch_nth(&self, suffix: &str, nth: usize) -> Caught {
        let caught = Caught::new(self.shared.catalog);
        self.fault_once(suffix, nth, Fault::Catch(caught.clone()));
        caught
    }

    /// The same, and of those that are sent after it none comes to the catalog.
    pub fn catch_only(&self, suffix: &str, nth: usize) -> Caught {
        let caught = self.catch_nth(suffix, nth);
        self.rule(suffix, (nth + 1, usize::MAX), Fault::Drop);
        caught
    }

    /// From now on every request passes, but for those that were caught before.
    pub fn pass(&self) {
        self.shared.state.lock().unwrap().rules.clear();
    }

    /// From now on every request takes as long as `delays` says.
    pub fn delay(&self, delays: impl FnMut(&Message) -> Delay + Send + 'static) {
        self.shared.state.lock().unwrap().delays = Some(Box::new(delays));
    }

    /// From now on no request is delayed.
    pub fn hurry(&self) {
        self.shared.state.lock().unwrap().delays = None;
    }

    /// How many requests are under way, delayed ones included.
    pub fn pending(&self) -> usize {
        self.shared.state.lock().unwrap().pending
    }

    /// Returns once no request is under way.
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

    /// The last requests and answers, for the message of a test that fails.
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
            // A connection that breaks is what a gateway has to live with.
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

    /// What is to be done with a request.
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
        // Every rule counts, whichever applies.
        let applying: Vec<_> = applying.collect();
        (applying.into_iter().next(), delay)
    }

    fn end(&self) {
        self.state.lock().unwrap().pending -= 1;
        self.changed.notify_all();
    }

    /// Notes what became of a request at the catalog.
    fn note(&self, request: &Message, answer: io::Result<Message>) -> io::Result<Message> {
        let said = match &answer {
            Ok(answer) => format!("{} {}", answer.start, brief(answer)),
            Err(error) => error.to_string(),
        };
        let mut state = self.state.lock().unwrap();
        state.saw(&format!("   {} was answered {said}", request.start));
        answer
    }

    /// What the gateway hears; `None` where its connection is to be closed.
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

    /// Asks on the connection that goes with the gateway's.
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

/// The beginning of a body that is text.
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

/// Asks on a connection of the request's own.
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
