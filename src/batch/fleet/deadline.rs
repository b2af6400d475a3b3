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
pub(in crate::batch) enum Deadline {
    /// No process has owned the log yet.
    Unset,
    Kernel(Timer),
    /// The system has none.
    Missing,
    /// The timer of a simulation.
    Told(Box<dyn Fn(Duration) + Send>),
}

impl Deadline {
    /// Returns the kernel's timer, which is made when it is first set. Where the system has none, nothing ends the process.
    pub(in crate::batch) fn of_kernel() -> Self {
        Self::Unset
    }

    /// Returns a timer that `tell` is told of.
    pub(in crate::batch) fn told(tell: impl Fn(Duration) + Send + 'static) -> Self {
        Self::Told(Box::new(tell))
    }

    fn made() -> Self {
        let signal = SigevNotify::SigevSignal {
            signal: Signal::SIGKILL,
            si_value: 0,
        };
        // This clock goes on while the machine sleeps.
        let timer = Timer::new(ClockId::CLOCK_BOOTTIME, SigEvent::new(signal));
        timer.map_or_else(
            |error| {
                tracing::warn!(cause = %error, "no timer of the kernel: if this process is stopped for longer than `batch.lease`, it may send one more request of a batch when it goes on");
                Self::Missing
            },
            Self::Kernel,
        )
    }

    /// Ends the process after `left`, unless this is called again before; never if `left` is zero.
    pub(in crate::batch) fn set(&mut self, left: Duration) {
        if matches!(self, Self::Unset) {
            *self = Self::made();
        }
        match self {
            Self::Kernel(timer) => {
                // A time of zero disarms it.
                let expiration = Expiration::OneShot(TimeSpec::from_duration(left));
                let _ = timer.set(expiration, TimerSetTimeFlags::empty());
            }
            Self::Told(tell) => tell(left),
            Self::Unset | Self::Missing => {}
        }
    }
}
