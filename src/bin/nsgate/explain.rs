//! `nsgate explain`: the mount and backend of an identifier, the path sent upstream, the permissions needed, and
//! whether a caller has them.

mod caller;
mod rights;

use std::fmt::Write as _;

use nsgate::app;
use nsgate::auth::access::{Rule, Rules};
use nsgate::config::load::{Loaded, Origin};
use nsgate::config::{Access, AuthorizationRule, Config, Implementation};
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::query::DEFAULT_DELIMITER;
use nsgate::route::Mount;

use crate::cli::Explain;

/// The most mounts or rules that are listed one by one.
const MOST: usize = 100;

/// Returns a few lines about the identifier.
///
/// # Errors
/// The identifier is not valid, no mount serves it, or the caller's token is refused.
pub(crate) fn explain(loaded: &Loaded, asked: &Explain) -> Result<String, String> {
    let config = &loaded.config;
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
    let rules = match &config.authorization {
        Some(configured) => Some(PlacedRules {
            rules: Rules::new(configured).map_err(|error| error.to_string())?,
            configured,
            origin: &loaded.origin,
        }),
        None => None,
    };
    authorization(&mut said, rules.as_ref(), &id);
    if let Some(caller) = caller::of(config, asked)? {
        line(&mut said, "caller", &caller.words);
        rights::add(&mut said, rules.as_ref(), &caller.principal, &id);
    }
    Ok(said.trim_end().to_owned())
}

/// The rules of a configuration, and their places in its file.
struct PlacedRules<'a> {
    rules: Rules,
    configured: &'a [AuthorizationRule],
    origin: &'a Origin,
}

impl PlacedRules<'_> {
    /// Returns `file:line:column` of a rule, or of a key in it; of all rules if it is none of them.
    fn place(&self, rule: Option<&Rule>, key: &str) -> String {
        let names = rule.map(|rule| names(&rule.namespace));
        let index = names.and_then(|names| {
            let mut configured = self.configured.iter();
            configured.position(|rule| rule.namespace == names)
        });
        match index {
            Some(index) => self.origin.place(&format!("authorization[{index}]{key}")),
            None => self.origin.place("authorization"),
        }
    }

    fn needs(&self, rule: &Rule) -> String {
        let (read, write) = (need(&rule.read), need(&rule.write));
        let (rule, place) = (rule.spelled(), self.place(Some(rule), ""));
        format!("read: {read}, write: {write} (rule {rule}, {place})")
    }
}

/// Adds the permissions that a caller needs, by the rule that decides and by those below it, which also
/// decide about writes.
fn authorization(said: &mut String, rules: Option<&PlacedRules<'_>>, id: &Identifier) {
    let Some(rules) = rules else {
        let words = "none: every authenticated caller may read and write";
        return line(said, "authorization", words);
    };
    match rules.rules.find(id) {
        Some(rule) => line(said, "authorization", &rules.needs(rule)),
        None => line(
            said,
            "authorization",
            "read: denied, write: denied (no rule)",
        ),
    }
    let below = rules.rules.below(id).map(|rule| rules.needs(rule));
    lines(said, "rule below it", below);
}

fn need(wanted: &Access) -> String {
    match wanted {
        Access::Scope(scope) => format!("scope {scope}"),
        Access::Claim { claim, any_of } => format!("claim {claim}: {}", any_of.join(" or ")),
        Access::Issued { issuer, need: rest } => format!("{}, of {issuer}", need(rest)),
        Access::AnyCaller => "any caller".to_owned(),
        Access::Deny => "denied".to_owned(),
    }
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
