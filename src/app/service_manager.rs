//! The service manager (systemd): the sockets that it holds for the gateway, and the states that it is told.
//!
//! A socket that the service manager holds stays open while the gateway is restarted. Connections wait in the system's
//! queue then, and the next process accepts them: none is refused.

pub(super) mod notifier;

use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

use super::Failure;
use crate::server::listener::Listener;

/// The names of the sockets that are accepted, in the order of sockets without names.
const NAMES: [&str; 2] = ["data", "admin"];

/// The sockets that the service manager holds; `None` for each that the gateway opens itself.
#[derive(Default)]
pub(super) struct HeldSockets {
    pub(super) data: Option<TcpListener>,
    pub(super) admin: Option<TcpListener>,
}

impl HeldSockets {
    /// Takes the sockets that `LISTEN_FDS`, `LISTEN_PID` and `LISTEN_FDNAMES` describe. Must be called before there are
    /// threads, because it changes the environment.
    pub(super) fn take() -> Result<Self, Failure> {
        let names = std::env::var("LISTEN_FDNAMES").ok();
        let mut passed = ListenFd::from_env();
        let unusable = |why: String| Failure::Configuration(format!("LISTEN_FDS: {why}"));
        let places = assign(names.as_deref(), passed.len()).map_err(unusable)?;
        let mut take = |socket: usize| {
            let Some(place) = places[socket] else {
                return Ok(None);
            };
            passed.take_tcp_listener(place).map_err(|error| {
                let name = NAMES[socket];
                unusable(format!(
                    "the socket `{name}` is no TCP socket that listens: {error}; \
                     write ListenStream= with an IP address and a port"
                ))
            })
        };
        Ok(Self {
            data: take(0)?,
            admin: take(1)?,
        })
    }
}

/// Returns the place of each socket of [`NAMES`] among `count` sockets with these names, separated by colons.
fn assign(names: Option<&str>, count: usize) -> Result<[Option<usize>; 2], String> {
    let names: Vec<&str> = match names.filter(|names| !names.is_empty()) {
        _ if count == 0 => return Ok([None, None]),
        Some(names) => names.split(':').collect(),
        None => NAMES.into_iter().take(count).collect(),
    };
    if names.len() != count {
        return Err(format!(
            "there are {count} sockets and {} names; pass two sockets at most, named `data` and `admin`",
            names.len()
        ));
    }
    let mut places = [None; 2];
    for (place, name) in names.iter().enumerate() {
        let known = NAMES.iter().position(|known| known == name);
        let Some(known) = known else {
            return Err(format!(
                "there is no use for a socket named `{name}`; write FileDescriptorName=data or FileDescriptorName=admin"
            ));
        };
        if places[known].replace(place).is_some() {
            return Err(format!(
                "two sockets are named `{name}`; one is enough, and [::] listens for IPv4, too"
            ));
        }
    }
    Ok(places)
}

/// Returns the listener over `held`; without it, binds `address`. `key` is the configuration key of the address.
pub(super) async fn listen(
    key: &str,
    address: SocketAddr,
    held: Option<TcpListener>,
) -> Result<Listener, Failure> {
    let Some(held) = held else {
        return Listener::bind(address).await.map_err(|error| {
            Failure::Configuration(format!("{key}: cannot listen on {address}: {error}"))
        });
    };
    let listener = Listener::held(held)
        .map_err(|error| Failure::Configuration(format!("LISTEN_FDS: {key}: {error}")))?;
    if listener.address() != address {
        tracing::info!(
            key,
            configured = %address,
            address = %listener.address(),
            "the service manager's socket is used instead of the configured address"
        );
    }
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_told_apart_by_their_names_or_by_their_order() {
        for (names, count, places) in [
            (None, 0, [None, None]),
            (Some("data"), 0, [None, None]),
            (None, 1, [Some(0), None]),
            (Some(""), 2, [Some(0), Some(1)]),
            (Some("data"), 1, [Some(0), None]),
            (Some("admin"), 1, [None, Some(0)]),
            (Some("admin:data"), 2, [Some(1), Some(0)]),
        ] {
            assert_eq!(assign(names, count), Ok(places), "{names:?} {count}");
        }
    }

    #[test]
    fn sockets_without_a_use_are_refused_with_the_name_that_is_wrong() {
        for (names, count, said) in [
            (Some("nsgate.socket"), 1, "`nsgate.socket`"),
            (Some("data:data"), 2, "two sockets are named `data`"),
            (Some("data"), 2, "2 sockets and 1 names"),
            (None, 3, "3 sockets and 2 names"),
        ] {
            let refused = assign(names, count);
            let refused = refused.expect_err("there is no use for one of them");
            assert!(refused.contains(said), "{refused}");
        }
    }
}
