//! The filter of log records by level, and its change while the program runs.

use std::sync::OnceLock;

use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::reload;

use crate::config::LogLevel;

/// The switch of the process's first subscriber, which is as global as this.
static SWITCH: OnceLock<Switch> = OnceLock::new();

/// A function that changes the level of one subscriber.
type Switch = Box<dyn Fn(LogLevel) + Send + Sync>;

/// Sets the level from now on.
pub fn set_level(level: LogLevel) {
    if let Some(switch) = SWITCH.get() {
        switch(level);
    }
}

/// Returns a filter and its switch. [`set_level`] changes the filter once the switch is installed.
pub(super) fn filter<S: Subscriber>(level: LogLevel) -> (impl Layer<S>, Switch) {
    let (filter, handle) = reload::Layer::new(ours(level));
    let switch = move |level| {
        // An error only means that the subscriber is gone.
        let _ = handle.reload(ours(level));
    };
    (filter, Box::new(switch))
}

/// Installs `switch` as the one of the process's own subscriber.
pub(super) fn install(switch: Switch) {
    let _ = SWITCH.set(switch);
}

/// Returns the filter for a level. Libraries log their internals already at `info`, and an embedded catalog every
/// file that it touches, so these are shown only at `debug`; and each frame of HTTP/2, which is some lines for each
/// request, only at `trace`.
fn ours(settings: LogLevel) -> Targets {
    let level = level(settings);
    let theirs = match level {
        Level::INFO => Level::WARN,
        other => other,
    };
    let of_frames = match level {
        Level::DEBUG => Level::INFO,
        _ => theirs,
    };
    Targets::new()
        .with_default(theirs)
        .with_target("h2", of_frames)
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
            (LogLevel::Trace, Level::TRACE, Level::TRACE),
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
                let of_frames = logged("h2::codec::framed_read");
                let is_seen =
                    level <= theirs && (level != Level::DEBUG || setting == LogLevel::Trace);
                assert_eq!(of_frames, is_seen, "{setting:?} {level}");
            }
        }
    }
}
