//! Random scenarios of gateways that share a log.

use std::time::Duration;

use nsgate::config::BatchConfig;

use super::{Scenario, Table};
use crate::catalog::Ways;
use crate::fleet::{peers, store};
use crate::random::Random;

/// The gateways that share a log, and what happens to them.
#[derive(Clone, Debug)]
pub struct FleetPlan {
    pub lease: Duration,
    /// The time that passes while the clock of each gateway shows a second, in thousandths. Only leases are measured by
    /// it.
    pub paces: Vec<u32>,
    /// The time of one message to the server of the log, or to another gateway: least and most, in milliseconds.
    pub travels: (u64, u64),
    /// The percentage of requests to the server of the log, and of those to other gateways, that meet a fault.
    pub store_faults: u64,
    pub peer_faults: u64,
    /// The troubles at some time, and those at one of all the points at which a gateway may crash. At a point, the gateway
    /// that is at work is killed or stopped.
    pub troubles: Vec<(Duration, Trouble)>,
    pub at_points: Vec<(u64, Trouble)>,
    /// True if nothing happens but what is planned.
    pub is_directed: bool,
    /// The only event of a directed scenario; `None` for no event.
    pub single: Option<Single>,
}

/// The only event of a directed scenario. Requests and points are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Single {
    /// A request to the server of the log meets a fault. A late one is late by `late`.
    Store {
        request: u64,
        fault: store::Fault,
        late: Duration,
    },
    /// A request to another gateway meets a fault.
    Peers { request: u64, fault: peers::Fault },
    /// A trouble comes at a point, to the gateway that it names.
    Trouble { point: u64, trouble: Trouble },
}

/// An event that a gateway, a server or a network suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The process is killed.
    Kill { gateway: usize },
    /// The process ends in order.
    End { gateway: usize },
    /// The process is stopped, and goes on.
    Stop { gateway: usize, lasts: Duration },
    /// The gateway does not reach the server of the log.
    CutStore { gateway: usize, lasts: Duration },
    /// Two gateways do not reach each other.
    CutPeers {
        gateways: (usize, usize),
        lasts: Duration,
    },
    /// The server of the log crashes and starts again.
    Restart { lasts: Duration },
    /// The server of the log hangs, its standby becomes the primary, and the other one ends.
    FailOver { hangs: Duration },
}

impl Trouble {
    /// Returns the gateway whose process is killed, stopped or ended; `None` for another trouble.
    pub fn gateway(self) -> Option<usize> {
        match self {
            Self::Kill { gateway } | Self::End { gateway } | Self::Stop { gateway, .. } => {
                Some(gateway)
            }
            _ => None,
        }
    }

    /// Returns the time until it is over.
    pub fn lasts(self) -> Duration {
        match self {
            Self::Kill { .. } | Self::End { .. } => Duration::ZERO,
            Self::Stop { lasts, .. }
            | Self::CutStore { lasts, .. }
            | Self::CutPeers { lasts, .. }
            | Self::Restart { lasts } => lasts,
            // It hangs before and after the other server is the primary.
            Self::FailOver { hangs } => 2 * hangs,
        }
    }
}

impl FleetPlan {
    /// Returns the fault that this request to the server of the log was planned to meet, and its delay.
    pub fn store_fault(&self, number: u64) -> Option<(store::Fault, Duration)> {
        match self.single {
            Some(Single::Store {
                request,
                fault,
                late,
            }) if request == number => Some((fault, late)),
            _ => None,
        }
    }

    /// Returns the fault that this request to another gateway was planned to meet.
    pub fn peer_fault(&self, number: u64) -> Option<peers::Fault> {
        match self.single {
            Some(Single::Peers { request, fault }) if request == number => Some(fault),
            _ => None,
        }
    }
}

/// The number of gateways.
pub const GATEWAYS: usize = 3;

impl Scenario {
    /// Returns the random scenario of a seed with several gateways.
    pub fn of_fleet(seed: u64) -> Self {
        let random = &mut Random::new(seed, 7);
        let mut scenario = Self::of(seed);
        // What catalogs and clients do is as random as with one gateway, in less time.
        scenario.rough_for = random.millis(12_000, 40_000);
        scenario.to_the_end = random.chance(4);
        // A simulation costs the time that it simulates, in which gateways tell the log that they live.
        scenario.longest_pause = *random.pick(&[2_000, 5_000, 10_000]);
        for (_, begins) in &mut scenario.clients {
            *begins = (*begins).min(random.millis(0, 30_000));
        }
        scenario.crashes.clear();
        let lease = Duration::from_millis(*random.pick(&[600, 1000, 2000, 5000]));
        let longest = u64::try_from(scenario.rough_for.as_millis()).expect("a short time");
        let troubles = *random.pick(&[0, 1, 2, 3, 5, 8]);
        let troubles = (0..troubles).map(|_| {
            let at = random.millis(0, longest);
            (at, trouble(random, lease))
        });
        let troubles = troubles.collect();
        let at_points = *random.pick(&[0, 1, 1, 2, 3, 5]);
        let at_points = (0..at_points).map(|_| (random.between(10, 500), trouble(random, lease)));
        let at_points = at_points.collect();
        let is_even = random.chance(30);
        let pace = |random: &mut Random| {
            if is_even {
                1000
            } else {
                random.between(960, 1040)
            }
        };
        scenario.fleet = Some(FleetPlan {
            lease,
            paces: (0..GATEWAYS)
                .map(|_| u32::try_from(pace(random)).expect("a small number"))
                .collect(),
            travels: *random.pick(&[(0, 1), (0, 3), (1, 30)]),
            store_faults: *random.pick(&[0, 0, 1, 3]),
            peer_faults: *random.pick(&[0, 0, 3, 15]),
            troubles,
            at_points,
            is_directed: false,
            single: None,
        });
        if random.chance(50) {
            scenario.hurry();
        }
        scenario
    }

    /// Has everything happen in a quarter of its time: less of it is time in which nothing happens.
    fn hurry(&mut self) {
        let sooner = |time: &mut Duration| *time /= 4;
        sooner(&mut self.rough_for);
        self.longest_pause /= 4;
        self.clients
            .iter_mut()
            .for_each(|(_, begins)| sooner(begins));
        for outage in &mut self.outages {
            sooner(&mut outage.at);
            sooner(&mut outage.lasts);
        }
        if let Some(plan) = &mut self.fleet {
            plan.troubles.iter_mut().for_each(|(at, _)| sooner(at));
        }
    }

    /// Returns a scenario of three gateways over two catalogs, in which nothing happens but what is planned.
    pub fn directed_fleet(lease: Duration) -> Self {
        let told = Ways {
            told: true,
            ..Ways::default()
        };
        Self {
            tables: vec![
                Table::new(0, 0, 1),
                Table::new(1, 0, 1),
                Table::new(0, 1, 1),
            ],
            clients: Vec::new(),
            settings: BatchConfig {
                // A batch looks for a create without an answer after a third of this.
                prepare_timeout: Duration::from_secs(3),
                ..BatchConfig::default()
            },
            dead_for: (300, 300),
            fleet: Some(FleetPlan {
                lease,
                paces: vec![1000, 960, 1040],
                travels: (1, 2),
                store_faults: 0,
                peer_faults: 0,
                troubles: Vec::new(),
                at_points: Vec::new(),
                is_directed: true,
                single: None,
            }),
            to_the_end: false,
            ..Self::reference(told, false, false)
        }
    }
}

fn trouble(random: &mut Random, lease: Duration) -> Trouble {
    let gateway =
        |random: &mut Random| usize::try_from(random.below(GATEWAYS as u64)).expect("an index");
    let lease = u64::try_from(lease.as_millis()).expect("a short time");
    // Around the lease, where it matters most.
    let lasts = |random: &mut Random| match random.below(3) {
        0 => random.millis(1, lease),
        1 => random.millis(lease * 4 / 5, lease * 3 / 2),
        _ => random.millis(lease, lease * 4),
    };
    match random.below(9) {
        0 | 1 => Trouble::Kill {
            gateway: gateway(random),
        },
        2 => Trouble::End {
            gateway: gateway(random),
        },
        3 | 4 => Trouble::Stop {
            gateway: gateway(random),
            lasts: lasts(random),
        },
        5 => Trouble::CutStore {
            gateway: gateway(random),
            lasts: lasts(random),
        },
        6 => {
            let one = gateway(random);
            let other = (one + 1 + gateway(random) % (GATEWAYS - 1)) % GATEWAYS;
            Trouble::CutPeers {
                gateways: (one, other),
                lasts: lasts(random),
            }
        }
        7 => Trouble::Restart {
            lasts: lasts(random),
        },
        _ => Trouble::FailOver {
            hangs: lasts(random),
        },
    }
}
