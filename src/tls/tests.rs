#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
