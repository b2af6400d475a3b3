//! `nsgate explain`: the mount and backend of an identifier, the path sent upstream, and the permissions
//! needed.

use std::fmt::Write as _;

use nsgate::app;
use nsgate::auth::access::{Rule, Rules};
use nsgate::config::{Access, Config, Implementation};
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::query::DEFAULT_DELIMITER;
use nsgate::route::Mount;

use crate::cli::Explain;

/// The most mounts or rules that are listed one by one.
const MOST: usize = 100;

/// Returns a few lines about the identifier.
///
/// # Errors
/// The identifier is not valid, or no mount serves it.
pub(crate) fn explain(config: &Config, asked: &Explain) -> Result<String, String> {
    let id = Identifier::parse(&asked.identifier, &asked.delimiter)
        .map_err(|error| error.to_string())?;
    let routes = app::routes(config).map_err(|error| error.to_string())?;
    let mut said = String::new();
    match routes.find(&id) {
        Some(mount) => owned(&mut said, config, mount, &id, &asked.delimiter)?,
        None if routes.below(&id).next().is_none() => return Err(nobody(config, &id)),
        None => line(
            &mut said,
            "mount",
            "none; the gateway itself lists what is below",
        ),
    }
    let below = routes
        .below(&id)
        .map(|mount| format!("{:?} on {}", names(&mount.namespace), mount.backend_name));
    lines(&mut said, "below it", below);
    authorization(&mut said, config, &id)?;
    Ok(said.trim_end().to_owned())
}

/// Adds the permissions that a caller needs, by the rule that decides and by those below it, which also
/// decide about writes.
fn authorization(said: &mut String, config: &Config, id: &Identifier) -> Result<(), String> {
    let Some(rules) = &config.authorization else {
        line(
            said,
            "authorization",
            "none: every authenticated caller may read and write",
        );
        return Ok(());
    };
    let rules = Rules::new(rules).map_err(|error| error.to_string())?;
    match rules.find(id) {
        Some(rule) => line(said, "authorization", &needs(rule)),
        None => line(
            said,
            "authorization",
            "read: denied, write: denied (no rule)",
        ),
    }
    lines(said, "rule below it", rules.below(id).map(needs));
    Ok(())
}

fn needs(rule: &Rule) -> String {
    let said = |need: &Access| match need {
        Access::Scope(scope) => format!("scope {scope}"),
        Access::Claim { claim, any_of } => format!("claim {claim}: {}", any_of.join(" or ")),
        Access::Deny => "denied".to_owned(),
    };
    let (read, write) = (said(&rule.read), said(&rule.write));
    format!("read: {read}, write: {write} (rule {})", rule.spelled())
}

fn owned(
    said: &mut String,
    config: &Config,
    mount: &Mount,
    id: &Identifier,
    delimiter: &str,
) -> Result<(), String> {
    let upstream = mount.to_catalog(id);
    line(said, "mount", &format!("{:?}", names(&mount.namespace)));
    match &config.backends[&*mount.backend_name].implementation {
        Implementation::Rest(rest) => {
            line(
                said,
                "backend",
                &format!("{} (rest, {})", mount.backend_name, rest.uri),
            );
            upstream
                .check(rest.reading)
                .map_err(|error| error.to_string())?;
            let sent = if rest.reading.any_delimiter {
                delimiter
            } else {
                DEFAULT_DELIMITER
            };
            let segment = upstream
                .to_segment(sent)
                .map_err(|error| error.to_string())?;
            let base = rest.uri.path().trim_end_matches('/');
            line(
                said,
                "as a namespace",
                &format!("{base}/v1/namespace/{segment}/…"),
            );
            if !upstream.is_root() {
                line(said, "as a table", &format!("{base}/v1/table/{segment}/…"));
            }
        }
        Implementation::Dir(_) => {
            line(said, "backend", &format!("{} (dir)", mount.backend_name));
            line(said, "identifier there", &format!("{:?}", names(&upstream)));
        }
    }
    let spelling = if mount.keeps_path() {
        "kept, byte for byte"
    } else {
        "rewritten, in paths and bodies"
    };
    line(said, "identifiers", spelling);
    Ok(())
}

fn nobody(config: &Config, id: &Identifier) -> String {
    let mounts = config.mounts.iter().take(MOST);
    let mut mounts: Vec<String> = mounts
        .map(|mount| format!("{:?}", mount.namespace))
        .collect();
    let more = config.mounts.len() - mounts.len();
    if more > 0 {
        mounts.push(format!("and {more} more"));
    }
    format!(
        "no mount serves {:?}; the mounts are {}",
        names(id),
        mounts.join(" ")
    )
}

/// Adds a line for each of `values`, but not for more than can be read.
fn lines(said: &mut String, what: &str, mut values: impl Iterator<Item = String>) {
    for value in values.by_ref().take(MOST) {
        line(said, what, &value);
    }
    let more = values.count();
    if more > 0 {
        line(said, what, &format!("… and {more} more"));
    }
}

fn line(said: &mut String, what: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(said, "{what:<18}{value}");
}

fn names(id: &Identifier) -> Vec<&str> {
    id.names().collect()
}
