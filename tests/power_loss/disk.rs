//! A disk for redb that keeps written and synced data apart, and can lose its power.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use redb::StorageBackend;

use crate::random::Random;

/// The size in bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;
/// The limit of every wait. Only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// The honesty of the disk: a sync may say that it synced, and do nothing.
#[derive(Clone, Copy, PartialEq)]
pub enum Honesty {
    Honest,
    SyncsNothing,
}

/// The trouble that an operation meets.
#[derive(Clone, Copy, PartialEq)]
pub enum Trouble {
    PowerLoss,
    FailedSync,
    FailedWrite,
}

/// A disk; clones are the same disk.
#[derive(Clone)]
pub struct Disk(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    honesty: Honesty,
}

#[derive(Default)]
struct State {
    /// The content as the running process reads it.
    seen: Vec<u8>,
    /// The content that certainly survives.
    synced: Vec<u8>,
    /// The changes since the last sync, in order.
    unsynced: Vec<Change>,
    /// The number of operations until the trouble, and the trouble; `None` if none is planned.
    trouble: Option<(u64, Trouble)>,
    struck: bool,
    powerless: bool,
    /// True if a sync waits for `proceed`.
    gated: bool,
    paused: bool,
    /// True if the process that uses the disk has given up.
    given_up: bool,
    trace: u64,
}

enum Change {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write(at, data) => put(content, *at, data),
            Self::SetLen(len) => content.resize(*len, 0),
        }
    }
}

impl Disk {
    /// Returns an empty disk.
    pub fn new(honesty: Honesty) -> Self {
        Self::holding(Vec::new(), honesty)
    }

    fn holding(content: Vec<u8>, honesty: Honesty) -> Self {
        let state = State {
            seen: content.clone(),
            synced: content,
            ..State::default()
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            honesty,
        }))
    }

    /// Plans trouble for after this many operations.
    pub fn plan(&self, operations: u64, trouble: Trouble) {
        let mut state = self.state();
        state.trouble = Some((operations, trouble));
        state.struck = false;
    }

    /// Returns true if the trouble has struck.
    pub fn struck(&self) -> bool {
        self.state().struck
    }

    /// Makes syncs wait until they may proceed, or stop waiting.
    pub fn gate(&self, gated: bool) {
        let mut state = self.state();
        state.gated = gated;
        state.paused = false;
        self.0.changed.notify_all();
    }

    /// Lets the waiting sync happen, if there is one.
    pub fn proceed(&self) {
        self.state().paused = false;
        self.0.changed.notify_all();
    }

    /// Waits until a sync waits or the process has given up. Returns true if a sync waits.
    pub fn wait(&self) -> bool {
        let state = self.state();
        let until = |state: &mut State| !state.paused && !state.given_up;
        let (state, timeout) = self
            .0
            .changed
            .wait_timeout_while(state, PATIENCE, until)
            .unwrap();
        assert!(!timeout.timed_out(), "the log writes and never syncs");
        !state.given_up
    }

    /// Notes that the process that uses the disk has given up.
    pub fn give_up(&self) {
        self.state().given_up = true;
        self.0.changed.notify_all();
    }

    /// Returns a fingerprint of every operation.
    pub fn trace(&self) -> u64 {
        self.state().trace
    }

    /// Returns the disk as the next process finds it. Unsynced changes survive at random.
    pub fn after_power_loss(&self, random: &mut Random) -> Self {
        let mut state = self.state();
        let mut content = std::mem::take(&mut state.synced);
        let mut changes = std::mem::take(&mut state.unsynced);
        // The share that survives differs from one loss to the next: sometimes all of it or nothing.
        let kept = [0, 20, 50, 80, 100][random.index(5)];
        if random.chance(30) {
            for at in (1..changes.len()).rev() {
                changes.swap(at, random.index(at + 1));
            }
        }
        for change in changes {
            match change {
                Change::Write(at, data) if random.chance(20) => {
                    tear(&mut content, at, &data, kept, random);
                }
                change if random.chance(kept) => change.apply(&mut content),
                Change::Write(..) | Change::SetLen(_) => {}
            }
        }
        Self::holding(content, self.0.honesty)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Counts one operation. Returns the trouble that strikes it, if any.
    fn operate(state: &mut State, is_sync: bool, size: usize) -> io::Result<Option<Trouble>> {
        let word = if is_sync { 1 } else { 2 + size as u64 };
        state.trace = (state.trace ^ word).wrapping_mul(0x0100_0000_01b3);
        if state.powerless {
            return Err(io::Error::other("no power"));
        }
        let Some((operations, trouble)) = &mut state.trouble else {
            return Ok(None);
        };
        let due = *operations == 0;
        *operations = operations.saturating_sub(1);
        let fits = match trouble {
            Trouble::PowerLoss => true,
            Trouble::FailedSync => is_sync,
            Trouble::FailedWrite => !is_sync,
        };
        if !due || !fits || state.struck {
            return Ok(None);
        }
        state.struck = true;
        state.powerless = *trouble == Trouble::PowerLoss;
        Ok(Some(*trouble))
    }

    /// Changes the content. A change that is struck may still reach the disk.
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.state();
        let size = match &change {
            Change::Write(_, data) => data.len(),
            Change::SetLen(len) => *len,
        };
        let struck = Self::operate(&mut state, false, size)?;
        if struck.is_none() {
            change.apply(&mut state.seen);
        }
        state.unsynced.push(change);
        match struck {
            None => Ok(()),
            Some(_) => Err(io::Error::other("the write failed, as planned")),
        }
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disk")
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        if state.powerless {
            return Err(io::Error::other("no power"));
        }
        let at = usize::try_from(offset).unwrap();
        let there = state.seen.get(at..at + out.len());
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::SetLen(usize::try_from(len).unwrap()))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.gated {
            state.paused = true;
            self.0.changed.notify_all();
            let until = |state: &mut State| state.gated && state.paused;
            state = self.0.changed.wait_while(state, until).unwrap();
        }
        if Self::operate(&mut state, true, 0)?.is_some() {
            return Err(io::Error::other("the sync failed, as planned"));
        }
        if self.0.honesty == Honesty::Honest {
            let State {
                synced, unsynced, ..
            } = &mut *state;
            unsynced.drain(..).for_each(|change| change.apply(synced));
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write(
            usize::try_from(offset).unwrap(),
            data.to_vec(),
        ))
    }
}

/// Writes data, and makes the file grow if it ends before.
fn put(content: &mut Vec<u8>, at: usize, data: &[u8]) {
    if content.len() < at + data.len() {
        content.resize(at + data.len(), 0);
    }
    content[at..at + data.len()].copy_from_slice(data);
}

/// Writes only some sectors of the data, or only its beginning.
fn tear(content: &mut Vec<u8>, at: usize, data: &[u8], kept: u64, random: &mut Random) {
    if random.chance(30) {
        let end = random.index(data.len() + 1) / SECTOR * SECTOR;
        return put(content, at, &data[..end]);
    }
    for (index, sector) in data.chunks(SECTOR).enumerate() {
        if random.chance(kept) {
            put(content, at + index * SECTOR, sector);
        }
    }
}
