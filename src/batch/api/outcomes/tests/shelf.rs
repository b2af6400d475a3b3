//! A log that holds the records it was given, and counts how often it is asked.

use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use crate::batch::log::{BatchId, Intent, Log, Logged, Record, Resolution, Verdict};
use crate::batch::step::{Decision, Settled};

/// A log that holds the records it was given, and answers only while it has permits.
pub(super) struct Shelf {
    pub(super) records: Mutex<Vec<Record>>,
    pub(super) answers: Semaphore,
    looks: Mutex<Vec<String>>,
}

impl Shelf {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            records: Mutex::default(),
            answers: Semaphore::new(Semaphore::MAX_PERMITS),
            looks: Mutex::default(),
        })
    }

    pub(super) fn put(&self, record: Record) -> BatchId {
        let id = record.id;
        self.records.lock().unwrap().push(record);
        id
    }

    pub(super) fn looks(&self) -> usize {
        self.looks.lock().unwrap().len()
    }

    async fn first(&self, what: &str, is: impl Fn(&Record) -> bool) -> Option<Record> {
        self.looks.lock().unwrap().push(what.to_owned());
        drop(self.answers.acquire().await.unwrap());
        let records = self.records.lock().unwrap();
        records.iter().rev().find(|record| is(record)).cloned()
    }
}

impl Log for Shelf {
    fn is_new(&self) -> bool {
        true
    }

    fn intend(&self, _: BatchId, _: Arc<Intent>) -> Logged<'_, ()> {
        unreachable!("outcomes only read")
    }
    fn decide(&self, _: BatchId, _: Verdict) -> Logged<'_, Decision> {
        unreachable!("outcomes only read")
    }
    fn resolve(&self, _: BatchId, _: Resolution) -> Logged<'_, ()> {
        unreachable!("outcomes only read")
    }
    fn note(&self, _: BatchId, _: usize, _: Settled) -> Logged<'_, ()> {
        unreachable!("outcomes only read")
    }
    fn end(&self, _: BatchId, _: u64) -> Logged<'_, ()> {
        unreachable!("outcomes only read")
    }
    fn forget(&self, _: u64) -> Logged<'_, ()> {
        unreachable!("outcomes only read")
    }
    fn find(&self, id: BatchId) -> Logged<'_, Option<Record>> {
        Box::pin(async move { Ok(self.first("batch", |record| record.id == id).await) })
    }
    fn find_by_key<'a>(&'a self, key: &'a str) -> Logged<'a, Option<Record>> {
        let is = move |record: &Record| record.intent.idempotency.as_deref() == Some(key);
        Box::pin(async move { Ok(self.first(key, is).await) })
    }
    fn scan<'a>(&'a self, _: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()> {
        unreachable!("outcomes only look")
    }
}
