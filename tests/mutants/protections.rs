//! The bugs that remove one protection each: of a catalog from a request that it would read in another way, of clients from
//! an answer that leads them past the gateway, of one tenant's tables from another's batches, and of the gateway from line
//! ends that two readers take differently, frames without end, a caller that takes all places or all memory, keeps others
//! out of the admin address or fills the disk, and a breaker that closes a catalog to all.

use super::bug::Bug;

const READER: &[&str] = &["--test", "gateway", "unambiguous::second_reader"];
const TRAILERS: &[&str] = &["--test", "gateway", "http2::trailers"];
const REQUESTS: &[&str] = &["--test", "gateway", "hostile::requests"];
const FLOODS: &[&str] = &["--test", "gateway", "hostile::floods"];
const BREAKER: &[&str] = &["--test", "gateway", "failures::breaker"];
const PAGE_TOKENS: &[&str] = &["--lib", "gateway::listing::token"];
const STORAGE_KEYS: &[&str] = &["--test", "gateway", "storage_keys::"];
const SLOW_READS: &[&str] = &["--test", "gateway", "slow_reads::"];
const ACCESS: &[&str] = &["--lib", "auth::access"];
const TENANTS: &[&str] = &["--test", "gateway", "batches::tenants"];
const SHARES: &[&str] = &["--test", "gateway", "overload::shares"];
const LEADING: &[&str] = &["--test", "gateway", "leading::"];
const LISTINGS: &[&str] = &["--test", "gateway", "authorization::listing"];
const NO_BODY: &[&str] = &["--test", "gateway", "hostile::no_body"];
const FILES: &[&str] = &["--test", "configuration", "files::"];
const BODIES: &[&str] = &["--test", "gateway", "unambiguous::bodies"];

const LISTS: &[&str] = &["--lib", "protocol::rewrite::request"];
const LIMITS: &[&str] = &["--test", "gateway", "limits::"];
const ADMIN: &[&str] = &["--test", "gateway", "admin::"];
const AUDIT: &[&str] = &["--test", "gateway", "audit::bounds"];

pub const PROTECTIONS: &[Bug] = &[
    Bug {
        name: "a certificate that does not begin a line is passed over",
        file: "src/pem/sections.rs",
        right: "    if bytes[start..at] != *DASHES.as_bytes() {\n        return Err(",
        wrong: "    if bytes[start..at] != *DASHES.as_bytes() {\n        return Ok(None);\n        #[allow(unreachable_code)]\n        return Err(",
        checkers: &[FILES],
    },
    Bug {
        name: "a name that decodes to another path goes on",
        file: "src/protocol/identifier/reading.rs",
        right: "        if is_plain || reading == PathReading::EXACT {",
        wrong: "        if is_plain || !reading.raw_path {",
        checkers: &[READER],
    },
    Bug {
        name: "what follows the identifier is not looked at",
        file: "src/gateway/outgoing.rs",
        right: "    if has_free_text {",
        wrong: "    if has_free_text && reading.raw_path {",
        checkers: &[READER],
    },
    Bug {
        name: "a member in another spelling goes on",
        file: "src/protocol/rewrite/field.rs",
        right: "    known.iter().find(is_meant).copied()",
        wrong: "    known.iter().find(is_meant).copied().filter(|_| false)",
        checkers: &[READER],
    },
    Bug {
        name: "a rename goes on with members that nobody checked",
        file: "src/protocol/rewrite/request.rs",
        right: "let is_whole = self.asked.operation == Operation::RenameTable;",
        wrong: "let is_whole = false;",
        checkers: &[READER],
    },
    Bug {
        name: "a batch of one catalog goes on with members that nobody checked",
        file: "src/protocol/batch.rs",
        right: "        if !VERSION_MEMBERS.contains(&&*member.name) {",
        wrong: "        if VERSION_MEMBERS.is_empty() {",
        checkers: &[READER],
    },
    Bug {
        name: "a parameter in another spelling goes on",
        file: "src/protocol/query.rs",
        right: "} else if let Some(known) = pair.resembles() {",
        wrong: "} else if let Some(known) = pair.resembles().filter(|_| false) {",
        checkers: &[READER],
    },
    Bug {
        name: "a catalog is sent any delimiter",
        file: "src/gateway/outgoing.rs",
        right: "let keeps_delimiter = reading.any_delimiter || is_default();",
        wrong: "let keeps_delimiter = !reading.any_delimiter || is_default();",
        checkers: &[READER],
    },
    Bug {
        name: "what front proxies assert goes on",
        file: "src/backend/rest/headers.rs",
        right: "        is_asserted(name)\n            ||",
        wrong: "        false\n            ||",
        checkers: &[READER],
    },
    Bug {
        name: "an Arrow operation's body may be JSON",
        file: "src/gateway/request_body.rs",
        right: "let body = body.unless_json();",
        wrong: "let body = Ok::<_, crate::body::IsJson>(body);",
        checkers: &[READER],
    },
    Bug {
        name: "trailers go on",
        file: "src/backend/transport/http2/request_body.rs",
        right: "                    if let Ok(data) = frame.into_data() {\n                        self.rest = data;\n                    }",
        wrong: "                    match frame.into_data() {\n                        Ok(data) => self.rest = data,\n                        Err(frame) => {\n                            let trailers = frame.into_trailers().unwrap_or_default();\n                            let _ = self.stream.send_trailers(trailers);\n                            return Poll::Ready(Ok(()));\n                        }\n                    }",
        checkers: &[TRAILERS],
    },
    Bug {
        name: "a bare LF ends a line",
        file: "src/server/connection/request_scanner.rs",
        right: "        let mut from = 0;\n        while from < bytes.len() {",
        wrong: "        let mut from = bytes.len();\n        while from < bytes.len() {",
        checkers: &[REQUESTS],
    },
    Bug {
        name: "frames that ask for nothing may come without end",
        file: "src/server/connection/frames.rs",
        right: "const ALLOWANCE: u32 = 10_000;",
        wrong: "const ALLOWANCE: u32 = u32::MAX;",
        checkers: &[FLOODS],
    },
    Bug {
        name: "one caller may have all places",
        file: "src/request/places.rs",
        right: "            && all >= FEWEST",
        wrong: "            && all == usize::MAX",
        checkers: &[SHARES],
    },
    Bug {
        name: "a list in a body is read to its end",
        file: "src/protocol/rewrite/request.rs",
        right: "            bounded(\"operations\", index, MOST_ENTRIES)?;\n",
        wrong: "",
        checkers: &[LISTS],
    },
    Bug {
        name: "a query may have any number of parameters",
        file: "src/protocol/query.rs",
        right: "const MOST_PARAMETERS: usize = 128;",
        wrong: "const MOST_PARAMETERS: usize = usize::MAX;",
        checkers: &[LIMITS],
    },
    Bug {
        name: "one caller may have all memory of bodies",
        file: "src/request/held.rs",
        right: "let share = all / 100 * among.share.load(Ordering::Relaxed) as usize;",
        wrong: "let share = all.max(among.share.load(Ordering::Relaxed) as usize);",
        checkers: &[LIMITS],
    },
    Bug {
        name: "connections keep probes out",
        file: "src/app/build.rs",
        right: "        makes_room: true,",
        wrong: "        makes_room: false,",
        checkers: &[ADMIN],
    },
    Bug {
        name: "refusals fill the audit log",
        file: "src/telemetry/audit/counted.rs",
        right: "const LINES: u64 = 100;",
        wrong: "const LINES: u64 = u64::MAX;",
        checkers: &[AUDIT],
    },
    Bug {
        name: "one caller closes the last address to all",
        file: "src/backend/endpoints/failure_row.rs",
        right: "        !(self.blames_address || self.has_several_callers && self.has_several_targets)",
        wrong: "        false",
        checkers: &[BREAKER],
    },
    Bug {
        name: "no request goes through when every breaker is open",
        file: "src/backend/endpoints/panic_share.rs",
        right: "        count.is_multiple_of(SHARE)",
        wrong: "        count == 0",
        checkers: &[BREAKER],
    },
    Bug {
        name: "a catalog that is down gets a tenth of all requests, however many there are",
        file: "src/backend/endpoints/panic_share.rs",
        right: "const PACE: Moment = 100_000;",
        wrong: "const PACE: Moment = 0;",
        checkers: &[BREAKER],
    },
    Bug {
        name: "a request of the share that succeeds does not close the breaker",
        file: "src/backend/endpoints/breaker.rs",
        right: "                self.end_share();\n                self.next.swap(0, Ordering::Relaxed) != 0",
        wrong: "                self.end_share();\n                false",
        checkers: &[BREAKER],
    },
    Bug {
        name: "an undo goes out without the caller's context",
        file: "src/batch/run/requests.rs",
        right: "            context: self.context.clone(),",
        wrong: "            context: crate::protocol::context::Context::default(),",
        checkers: &[TENANTS],
    },
    Bug {
        name: "a header that selects data goes with no request of the gateway's own",
        file: "src/backend/internal_request.rs",
        right: "        scope.select_in(request.headers_mut());",
        wrong: "        let _ = scope;",
        checkers: &[TENANTS],
    },
    Bug {
        name: "tables of two tenants are one table",
        file: "src/batch/locks/table_key.rs",
        right: "            scope: backend.scope().clone(),",
        wrong: "            scope: DataScope::default(),",
        checkers: &[TENANTS],
    },
    Bug {
        name: "a restart forgets whose table it is",
        file: "src/batch/plan.rs",
        right: "Arc::clone(new.insert(backend(identity)?.in_scope(scope)))",
        wrong: "Arc::clone(new.insert(backend(identity)?))",
        checkers: &[TENANTS],
    },
    Bug {
        name: "a caller whom no rule judges removes with the gateway's rights",
        file: "src/batch/api/admissible.rs",
        right: "    if !caller.is_judged {",
        wrong: "    if !caller.is_judged && false {",
        checkers: &[TENANTS],
    },
    Bug {
        name: "two tenants of one subject share a key",
        file: "src/gateway/commit.rs",
        right: "        let _ = write!(name, \"\\0{}={}\", entry.key(), entry.value());",
        wrong: "        let _ = write!(name, \"\\0{}=\", entry.key());",
        checkers: &[TENANTS],
    },
    Bug {
        name: "a catalog's redirect goes on",
        file: "src/backend/rest/dispatch.rs",
        right: "        let outcome = if is_known(status) {",
        wrong: "        let outcome = if is_known(status) || status.is_redirection() {",
        checkers: &[LEADING],
    },
    Bug {
        name: "a catalog's cookies go on",
        file: "src/backend/rest/headers.rs",
        right: "        [b's', ..] => matches!(name, \"server-timing\" | \"sunset\"),",
        wrong: "        [b's', ..] => true,",
        checkers: &[LEADING],
    },
    Bug {
        name: "a catalog's trailers go on",
        file: "src/backend/transport/connection/streamed.rs",
        right: "if !matches!(&frame, Poll::Ready(Some(Ok(frame))) if frame.is_trailers()) {",
        wrong: "if !matches!(&frame, Poll::Ready(Some(Ok(frame))) if frame.is_trailers() && frame.is_data()) {",
        checkers: &[LEADING],
    },
    Bug {
        name: "only a listing with status 200 is filtered",
        file: "src/gateway/listing/read_catalog.rs",
        right: "        if !answer.status.is_success() {",
        wrong: "        if answer.status.as_u16() != 200 {",
        checkers: &[LISTINGS],
    },
    Bug {
        name: "a GET goes on with its body",
        file: "src/layer/recognize.rs",
        right: "    check_body(request)\n}",
        wrong: "    check_body(request).or(Ok(()))\n}",
        checkers: &[NO_BODY],
    },
    Bug {
        name: "a connection is used again after the answer to a HEAD",
        file: "src/backend/transport/connection.rs",
        right: "                if is_head || !http1",
        wrong: "                if is_head && !http1",
        checkers: &[NO_BODY],
    },
    Bug {
        name: "a member may be given twice",
        file: "src/protocol/json/repeats.rs",
        right: "        if is_among_first || ",
        wrong: "        if is_among_first && ",
        checkers: &[BODIES],
    },
    Bug {
        name: "the audit log names other versions than the catalog is sent",
        file: "src/gateway/audited.rs",
        right: "    let named = named_versions::parse(&body)?;",
        wrong: "    let named = named_versions::parse(&body).unwrap_or_default();",
        checkers: &[BODIES],
    },
    Bug {
        name: "a caller with partial rights makes page tokens up",
        file: "src/gateway/listing/token.rs",
        right: "            (&PLAIN, rest) if !is_secret => {",
        wrong: "            (&PLAIN, rest) => {",
        checkers: &[PAGE_TOKENS],
    },
    Bug {
        name: "a reader gets the keys of the storage",
        file: "src/layer/authorize.rs",
        right: ".lacks_credentials = !gives;",
        wrong: ".lacks_credentials = false;",
        checkers: &[STORAGE_KEYS],
    },
    Bug {
        name: "a slow read keeps a batch waiting",
        file: "src/batch/locks.rs",
        right: "            let presses = presses && !is_patient;",
        wrong: "            let presses = presses && wait.is_zero();",
        checkers: &[SLOW_READS],
    },
    Bug {
        name: "a token of any issuer meets a rule of one",
        file: "src/auth/access.rs",
        right: "**caller.issuer() == **issuer && is_met(need, caller)",
        wrong: "(**caller.issuer() == **issuer || true) && is_met(need, caller)",
        checkers: &[ACCESS],
    },
];
