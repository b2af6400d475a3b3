//! The end of a process that was stopped for longer than its lease.
//!
//! The owner of the log looks at its lease before it sends a request of a batch. A process that is stopped between the
//! look and the socket would send the request when it goes on, however late. So a timer of the kernel ends it when the
//! lease is over. A process that runs puts the timer off with each heartbeat, or disarms it once it sends nothing more.

use std::time::Duration;

use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

/// The timer of this process. Dropping it disarms it.
pub(in crate::batch) struct Deadline(Option<Timer>);

impl Deadline {
    /// Creates the timer, disarmed. Where the system has none, nothing ends the process.
    pub(in crate::batch) fn new() -> Self {
        let signal = SigevNotify::SigevSignal {
            signal: Signal::SIGKILL,
            si_value: 0,
        };
        // This clock goes on while the machine sleeps.
        let timer = Timer::new(ClockId::CLOCK_BOOTTIME, SigEvent::new(signal));
        if let Err(error) = &timer {
            tracing::warn!(cause = %error, "no timer of the kernel: if this process is stopped for longer than `batch.lease`, it may send one more request of a batch when it goes on");
        }
        Self(timer.ok())
    }

    /// Ends the process after `left`, unless this is called again before; never if `left` is zero.
    pub(in crate::batch) fn set(&mut self, left: Duration) {
        if let Some(timer) = &mut self.0 {
            // A time of zero disarms it.
            let expiration = Expiration::OneShot(TimeSpec::from_duration(left));
            let _ = timer.set(expiration, TimerSetTimeFlags::empty());
        }
    }
}
