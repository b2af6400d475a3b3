//! The counts of callgrind, read from its files.

use std::collections::HashMap;

/// The counts in total or for one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    pub instructions: f64,
    /// The number of heap allocations, including growing reallocations.
    pub allocations: f64,
}

impl Count {
    pub const MOST: Self = Self {
        instructions: f64::INFINITY,
        allocations: f64::INFINITY,
    };

    /// Reads the text of a file of callgrind (format version 1).
    ///
    /// The functions through which code calls the allocator are the same for all allocators.
    pub fn read(text: &str) -> Self {
        let mut count = Self {
            instructions: 0.0,
            allocations: 0.0,
        };
        // A function's name follows its number only at the first occurrence.
        let mut allocates: HashMap<&str, bool> = HashMap::new();
        let mut called = false;
        for line in text.lines() {
            if let Some(function) = line.strip_prefix("cfn=").or(line.strip_prefix("fn=")) {
                let (number, name) = function.split_once(' ').unwrap_or((function, ""));
                if !name.is_empty() {
                    allocates.insert(number, is_allocation(name));
                }
                called = allocates[number];
            } else if let Some(calls) = line.strip_prefix("calls=") {
                if called {
                    let calls = calls.split(' ').next();
                    count.allocations += calls.unwrap().parse::<f64>().unwrap();
                }
            } else if let Some(total) = line.strip_prefix("totals: ") {
                count.instructions = total.trim().parse().unwrap();
            }
        }
        assert!(count.instructions > 0.0, "callgrind counted nothing");
        count
    }

    pub fn min(self, other: Self) -> Self {
        Self {
            instructions: self.instructions.min(other.instructions),
            allocations: self.allocations.min(other.allocations),
        }
    }

    pub fn less(self, other: Self) -> Self {
        Self {
            instructions: self.instructions - other.instructions,
            allocations: self.allocations - other.allocations,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "hundreds")]
    pub fn over(self, requests: u64) -> Self {
        Self {
            instructions: (self.instructions / requests as f64).round(),
            allocations: (self.allocations / requests as f64 * 10.0).round() / 10.0,
        }
    }
}

fn is_allocation(name: &str) -> bool {
    ["__rust_alloc", "__rust_alloc_zeroed", "__rust_realloc"]
        .iter()
        .any(|function| name.ends_with(function))
}
