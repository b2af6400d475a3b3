//! Refuses changes of a batch of which the gateway cannot tell whose table they are about, or whether their caller may
//! remove.

use super::Caller;
use crate::backend::Backend;
use crate::batch::log::Action;
use crate::batch::step::Kind;
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::identifier::Identifier;

/// Refuses a change of the table `id` at a backend: 406 if context may select data there and nothing says so, 403 for a
/// removal that nobody has said the caller may do.
pub(super) fn check(
    backend: &Backend,
    id: &Identifier,
    action: &Action,
    caller: &Caller,
) -> Result<(), Error> {
    if let Some(key) = backend.selectors().undeclared(&caller.context) {
        return Err(undeclared(backend.name(), key));
    }
    if action.kind() != Kind::Removed || !backend.privileges_own() {
        return Ok(());
    }
    if !caller.is_judged {
        return Err(unjudged(backend.name(), id));
    }
    if backend.scope().is_chosen_by_client(&caller.context) {
        return Err(unjudged_scope(backend));
    }
    Ok(())
}

/// Returns the refusal of a removal that only the gateway's own credentials would be checked for: it is sent after the
/// decision, when nothing may be refused any more.
fn unjudged(backend: &str, id: &Identifier) -> Error {
    let first = id.names().next().unwrap_or_default();
    Error::new(
        Code::PermissionDenied,
        format!(
            "a batch removes with the gateway's own credentials at backend `{backend}`, and nothing says whether this caller may. An operator writes a rule for the namespace below `authorization`, such as {{ namespace: [{first}], read: …, write: {{ scope: catalog.write }} }}, or write: {{ any_caller: true }} if every caller may"
        ),
    )
}

/// Returns the refusal of a removal in data that the client chose: rules decide about names, and not about tenants.
fn unjudged_scope(backend: &Backend) -> Error {
    let (name, scope) = (backend.name(), backend.scope());
    Error::new(
        Code::PermissionDenied,
        format!(
            "a batch removes with the gateway's own credentials at backend `{name}`, and the client chose the data there itself:{scope}. An operator has a claim of the token set it, with `context` of the issuer"
        ),
    )
}

/// Returns the refusal of a batch with context, at a backend that may select data by it.
fn undeclared(backend: &str, key: &str) -> Error {
    Error::new(
        Code::Unsupported,
        format!(
            "backend `{backend}` may select its data by the context `{key}` of the request, and its configuration does not say so: a batch could act on another tenant's table. An operator writes `selects: {{ context: [{key}] }}` for the backend, or `selects: {{}}` if nothing in a request but its path selects data there"
        ),
    )
}
