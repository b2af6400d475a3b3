//! Which records are worth a line, and how that is changed while the program runs.

use std::sync::OnceLock;

use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::reload;

use crate::config::LogLevel;

/// As global as the subscriber that it belongs to: the first of the process.
static SWITCH: OnceLock<Switch> = OnceLock::new();

/// Changes the level of one subscriber.
type Switch = Box<dyn Fn(LogLevel) + Send + Sync>;

/// The level from now on.
pub fn set_level(level: LogLevel) {
    if let Some(switch) = SWITCH.get() {
        switch(level);
    }
}

/// A filter that [`set_level`] changes, once the other half is installed.
pub(super) fn filter<S: Subscriber>(level: LogLevel) -> (impl Layer<S>, Switch) {
    let (filter, handle) = reload::Layer::new(ours(level));
    let switch = move |level| {
        // An error means that the subscriber is gone.
        let _ = handle.reload(ours(level));
    };
    (filter, Box::new(switch))
}

/// The subscriber that `switch` belongs to is the process's own.
pub(super) fn install(switch: Switch) {
    let _ = SWITCH.set(switch);
}

/// What is worth a line. Libraries speak of their insides already at `info`, an embedded catalog of every file it
/// touches: that is for who asks for `debug`.
fn ours(settings: LogLevel) -> Targets {
    let level = level(settings);
    let theirs = match level {
        Level::INFO => Level::WARN,
        other => other,
    };
    Targets::new()
        .with_default(theirs)
        .with_target(env!("CARGO_CRATE_NAME"), level)
}

fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_silent_until_someone_looks_for_trouble() {
        let cases = [
            (LogLevel::Error, Level::ERROR, Level::ERROR),
            (LogLevel::Info, Level::INFO, Level::WARN),
            (LogLevel::Debug, Level::DEBUG, Level::DEBUG),
        ];
        for (setting, own, theirs) in cases {
            let levels = [
                Level::ERROR,
                Level::WARN,
                Level::INFO,
                Level::DEBUG,
                Level::TRACE,
            ];
            for level in levels {
                let logged = |target| ours(setting).would_enable(target, &level);
                assert_eq!(logged("nsgate::batch"), level <= own, "{setting:?} {level}");
                assert_eq!(logged("lance::io"), level <= theirs, "{setting:?} {level}");
            }
        }
    }
}
