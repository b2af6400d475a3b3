//! Reloads the configuration on request: activates it if all of it is valid, and refuses it otherwise.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::service_manager::notifier::Notifier;
use super::signals::Hangups;
use super::snapshot::{Retired, Snapshot};
use crate::admin::{Reloads, Waiting};
use crate::app::active::ActiveConfig;
use crate::backend::Backend;
use crate::batch::{Batches, OpenBatch};
use crate::config::load::{Loaded, Problems};
use crate::config::reload::{Applied, Difference, Digests, Reading, Report, Trigger};
use crate::telemetry::audit::{AuditRecord, Who};
use crate::telemetry::rfc3339;

/// The interval in which files are checked. A change counts once the file has stayed the same from one check
/// to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reloads one after the other; a request that comes during a reload is served by the next.
pub(super) struct Reloader {
    path: PathBuf,
    in_use: Arc<ActiveConfig>,
    reloads: Arc<Reloads>,
    asked: mpsc::Receiver<Waiting>,
    hangups: Hangups,
    notifier: Notifier,
    /// The digests of the files when they were last read, whether that configuration was activated or not.
    tried: Digests,
    /// The digests of changed files, which may still be changing; `None` if no file has changed.
    seen: Option<Digests>,
    /// The replaced configurations that requests or connections still use. A connection follows the active one with its
    /// next request, and closes after a pause of 120 s.
    retired: Vec<Retired>,
}

impl Reloader {
    pub(super) fn new(
        path: PathBuf,
        in_use: Arc<ActiveConfig>,
        reloads: Arc<Reloads>,
        asked: mpsc::Receiver<Waiting>,
        hangups: Hangups,
        notifier: Notifier,
    ) -> Self {
        Self {
            tried: in_use.snapshot().digests.clone(),
            seen: None,
            retired: Vec::new(),
            path,
            in_use,
            reloads,
            asked,
            hangups,
            notifier,
        }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        let mut looks = looks();
        loop {
            let mut waiting = Vec::new();
            let trigger = tokio::select! {
                () = self.hangups.next() => Trigger::Signal,
                Some(first) = self.asked.recv() => {
                    waiting.push(first);
                    Trigger::Request
                }
                _ = looks.tick() => {
                    self.drop_retired();
                    if self.files_changed().await { Trigger::File } else { continue }
                }
            };
            // All of these callers sent their request before anything is read.
            while let Ok(more) = self.asked.try_recv() {
                waiting.push(more);
            }
            self.notifier.reloading();
            let report = Arc::new(self.reload(trigger).await);
            self.notifier.reloaded();
            for waiting in waiting {
                let _ = waiting.send(Arc::clone(&report));
            }
        }
    }

    /// True if files have changed since they were last read, and are no longer changing.
    async fn files_changed(&mut self) -> bool {
        let tried = self.tried.clone();
        let Ok(now) = tokio::task::spawn_blocking(move || tried.again()).await else {
            return false;
        };
        if now == self.tried {
            self.seen = None;
            return false;
        }
        let settled = self.seen.as_ref() == Some(&now);
        self.seen = Some(now);
        settled
    }

    /// Writes the reload to the audit log; one that was requested is written with its caller, by the page. A signal
    /// opens the file of that log again.
    fn audit(&self, report: &Report) {
        let Some(audit) = &self.in_use.lasting.audit else {
            return;
        };
        if report.trigger == Trigger::Signal {
            audit.reopen();
        }
        if report.trigger != Trigger::Request {
            audit.write(AuditRecord::reload(report, Who::default()));
        }
    }

    async fn reload(&mut self, trigger: Trigger) -> Report {
        let report = Report {
            at: rfc3339(SystemTime::now()),
            trigger,
            outcome: self.attempt().await,
        };
        tell(&report);
        self.audit(&report);
        let metrics = &self.in_use.lasting.metrics;
        metrics.config_loaded(report.outcome.is_ok());
        self.reloads.over(Arc::new(report.clone()));
        report
    }

    async fn attempt(&mut self) -> Result<Applied, Vec<String>> {
        self.seen = None;
        // The receiver is dropped with this future: a gateway that stops activates nothing.
        let (wanted, _stopped) = oneshot::channel();
        let attempt = Attempt {
            path: self.path.clone(),
            in_use: Arc::clone(&self.in_use),
            wanted,
        };
        let runtime = Handle::current();
        let tried = tokio::task::spawn_blocking(move || runtime.block_on(attempt.run()));
        let Tried { digests, outcome } = tried.await.map_err(|error| vec![error.to_string()])?;
        self.tried = digests;
        let (applied, retired) = outcome?;
        self.retired.push(retired);
        self.in_use.snapshot().read_key_files().await;
        Ok(applied)
    }

    /// Drops the replaced configurations that nothing uses any more, off the workers.
    fn drop_retired(&mut self) {
        let unused: Vec<_> = self.retired.extract_if(.., |old| old.is_unused()).collect();
        if !unused.is_empty() {
            drop(tokio::task::spawn_blocking(move || drop(unused)));
        }
    }
}

/// One attempt to read, build and activate a configuration. It runs on a thread of its own: with 100,000 mounts it takes
/// seconds, and requests would wait.
struct Attempt {
    path: PathBuf,
    in_use: Arc<ActiveConfig>,
    /// Closed when the configuration is not wanted any more.
    wanted: oneshot::Sender<()>,
}

/// The result of an [`Attempt`], and the digests of the files that it depends on.
struct Tried {
    digests: Digests,
    outcome: Result<(Applied, Retired), Vec<String>>,
}

impl Attempt {
    async fn run(self) -> Tried {
        let Reading { loaded, digests } = Reading::of(&self.path);
        let before = self.in_use.snapshot();
        let mut tried = digests.clone();
        // As long as it is active, the files of the old configuration are checked as well.
        tried.keep(&before.digests);
        match self.build(loaded, digests, &before).await {
            Ok((applied, snapshot)) if !self.wanted.is_closed() => Tried {
                digests: snapshot.digests.clone(),
                outcome: Ok((applied, self.in_use.replace(snapshot))),
            },
            Ok(_) => Tried {
                digests: tried,
                outcome: Err(vec!["the gateway is stopping".to_owned()]),
            },
            Err(problems) => Tried {
                digests: tried,
                outcome: Err(problems),
            },
        }
    }

    async fn build(
        &self,
        loaded: Result<Loaded, Problems>,
        digests: Digests,
        before: &Snapshot,
    ) -> Result<(Applied, Snapshot), Vec<String>> {
        let loaded = loaded.map_err(|problems: Problems| lines(&problems.errors))?;
        let Loaded {
            mut config,
            warnings,
            origin,
            ..
        } = loaded;
        let difference = Difference::settle(&before.config, &mut config);
        let files = digests.changed(&before.digests);
        let own = std::path::absolute(&self.path).unwrap_or_default();
        let files = files.filter(|file| *file != own);
        let mut applied = Applied {
            difference,
            files: files.map(PathBuf::from).collect(),
            warnings: lines(&warnings),
        };
        let snapshot = Snapshot::build(&self.in_use.lasting, config, digests, Some(before)).await;
        let snapshot = match snapshot {
            Ok(snapshot) => snapshot.with_sound_keys().await,
            Err(unbuilt) => Err(unbuilt),
        };
        let snapshot = snapshot.map_err(|unbuilt| {
            // A configuration that was rejected leaves no metrics behind.
            self.in_use.forget_others();
            let unbuilt = unbuilt.into_iter();
            let problems = unbuilt.map(|part| origin.problem(&part.key, part.message).to_string());
            problems.collect::<Vec<_>>()
        })?;
        let left = left_behind(&self.in_use.lasting.batches, before, &snapshot);
        applied.warnings.extend(left);
        Ok((applied, snapshot))
    }
}

/// Returns the warnings about unfinished batches that continue with backends as they were.
fn left_behind(batches: &Batches, before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let open = batches.open();
    let left = before.world.backends.iter().filter(|old| !after.has(old));
    let warnings = left.filter_map(|old| {
        let name = old.name();
        let involves = |batch: &&OpenBatch| batch.entries.iter().any(|entry| entry.backend == *name);
        let count = open.iter().filter(involves).count();
        let batches = match count {
            0 => return None,
            1 => "1 unfinished batch still uses".to_owned(),
            _ => format!("{count} unfinished batches still use"),
        };
        let now = |is: fn(&Backend, &Backend) -> bool| {
            let mut now = after.world.backends.iter();
            now.find(|new| is(new, old))
        };
        let renamed = now(|new, old| new.catalog() == old.catalog() && new.name() != old.name());
        if let Some(new) = renamed {
            let new = new.name();
            return Some(format!("backend `{name}` is now called `{new}`; {batches} its catalog under the old name"));
        }
        let changed = now(|new, old| new.name() == old.name());
        if changed.is_some_and(|new| new.shares_address(old)) {
            return None;
        }
        Some(if changed.is_some() {
            format!("backend `{name}` has changed; {batches} it as it was, until a restart. Do not point it at another catalog before this list is empty: `nsgate batches list`")
        } else {
            format!("backend `{name}` was removed; {batches} it as it was. A restart without it would leave their tables locked. Configure it again, or do not restart before this list is empty: `nsgate batches list`")
        })
    });
    warnings.collect()
}

fn looks() -> Interval {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

fn lines(problems: &[impl ToString]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Logs the result of a reload.
fn tell(report: &Report) {
    let trigger = report.trigger.name();
    match &report.outcome {
        Ok(applied) => {
            let changed = applied.difference.changed.join(", ");
            let files = applied.files.iter().map(|file| file.display().to_string());
            let files = files.collect::<Vec<_>>().join(", ");
            tracing::info!(trigger, changed, files, "configuration reloaded");
            for warning in &applied.warnings {
                tracing::warn!(warning, "configuration warning");
            }
            for fixed in &applied.difference.restart_needed {
                tracing::warn!(
                    key = fixed.key, in_use = %fixed.in_use, wanted = %fixed.wanted,
                    "a changed configuration key needs a restart; the old value stays active until then"
                );
            }
        }
        Err(problems) => {
            for problem in problems {
                tracing::error!(
                    trigger,
                    cause = problem,
                    "configuration reload failed; the previous configuration stays active. Correct the file, then run `nsgate check`"
                );
            }
        }
    }
}
