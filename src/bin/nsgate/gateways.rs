//! `nsgate gateways`: lists the gateways that share a batch log.

use http::Method;
use nsgate::admin::gateways::GatewayList;
use tokio::runtime::Builder;

use crate::batches::client::{Client, Problem};
use crate::cli::AdminAddress;

/// Runs the command, and returns the text to print.
///
/// # Errors
/// The gateway cannot be reached, or refuses.
pub(crate) fn run(asked: &AdminAddress) -> Result<String, Problem> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build().map_err(Problem::Runtime)?;
    let client = Client::of(asked)?;
    let said = runtime.block_on(client.ask(Method::GET, "/gateways", None))?;
    if asked.json {
        return Ok(format!("{said:#}"));
    }
    let list: GatewayList =
        serde_json::from_value(said).map_err(|_| Problem::Stranger(client.admin().to_owned()))?;
    Ok(words(&list))
}

pub(crate) fn words(list: &GatewayList) -> String {
    if list.gateways.is_empty() {
        return "this gateway has its batch log in a file, for itself".to_owned();
    }
    let lines = list.gateways.iter().map(|one| {
        let role = if one.recovers {
            "has the batch log, and recovers its batches: if that takes long, its log says why"
        } else if one.is_owner {
            "has the batch log"
        } else if list.shared {
            "passes on to it"
        } else {
            "waits for it"
        };
        let this = if one.is_this { " (this one)" } else { "" };
        let silent = one.silent_millis / 1000;
        let silent = if one.silent_millis > one.lease_millis / 2 {
            format!(
                ", SILENT for {silent} s: taken for dead after {:.1} s",
                one.lease_millis as f64 * 1.2 / 1000.0
            )
        } else {
            String::new()
        };
        let routes = if one.routes_differ {
            ", FINDS TABLES ELSEWHERE: its mounts, or the addresses of its catalogs, differ from this one's"
        } else {
            ""
        };
        let address = one.address.as_deref().unwrap_or("no address for others");
        format!(
            "{}{this}: {role}; {address}; version {}{silent}{routes}",
            one.name, one.version
        )
    });
    let mut text: Vec<String> = lines.collect();
    if !list.gateways.iter().any(|one| one.is_owner) {
        text.push("NO GATEWAY HAS THE BATCH LOG: one takes it over in some seconds. If not, look at their logs and at PostgreSQL".to_owned());
    }
    text.join("\n")
}
